"""The load on coordinators, a process of its own like benchmarks/load.py and with the same signals.

`python -m benchmarks.coordinator_load rebalance|consumer-rebalance|commits|transactions --bootstrap HOST:PORT …`

Members and commits are plain requests over Ottla's connection, many at a time, so that the broker is what is measured;
transactions are librdkafka's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Callable, Coroutine
from typing import Any
from uuid import uuid4

from benchmarks.load import announce, finished
from client.wire.connection import Connection
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from protocol.uuid import uuid_to_string

GROUP = "bench"
TOPIC = "bench"
ASSIGNMENT = bytes(64)
SUBSCRIPTION = bytes(64)
IN_FLIGHT = 32
LATER = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)

Figures = dict[str, float]


class Member:
    """One member of a group on a connection of its own."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.id = ""

    async def rebalance(self) -> int:
        """Join and sync; the generation."""
        while True:
            joined = await self._join()
            if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.id = joined.member_id
                continue
            if joined.error_code != ErrorCode.NONE:
                raise SystemExit(f"benchmarks: JoinGroup: {ErrorCode(joined.error_code).name}")
            assignments = [
                SyncGroupRequestAssignment(member_id=member.member_id, assignment=ASSIGNMENT)
                for member in joined.members
            ]
            request = SyncGroupRequest(
                group_id=GROUP,
                generation_id=joined.generation_id,
                member_id=self.id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=assignments,
            )
            synced = await self.connection.call(request, SyncGroupResponse)
            if synced.error_code == ErrorCode.NONE:
                return int(joined.generation_id)

    async def _join(self) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            member_id=self.id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        )
        return await self.connection.call(request, JoinGroupResponse, timeout_s=60)


async def connect(options: argparse.Namespace) -> Connection:
    host, port = options.bootstrap.rsplit(":", 1)
    connection = await Connection.open(host, int(port), request_timeout_s=60)
    await connection.negotiate()
    return connection


async def find_coordinator(connection: Connection) -> None:
    """Wait until the group has a coordinator: its topic is made when somebody first asks."""
    request = FindCoordinatorRequest(coordinator_keys=[GROUP])
    while True:
        answer = await connection.call(request, FindCoordinatorResponse)
        if answer.coordinators[0].error_code not in LATER:
            return
        await asyncio.sleep(0.01)


async def rebalance(options: argparse.Namespace) -> Figures:
    """All members join again and get their assignments: from the first request to the last answer."""
    connections = [await connect(options) for _ in range(options.members)]
    await find_coordinator(connections[0])
    members = [Member(connection) for connection in connections]

    async def settle() -> None:
        """Members that come one by one start rebalances of their own: until all are in one generation."""
        while len(set(await asyncio.gather(*(member.rebalance() for member in members)))) > 1:
            pass

    await settle()
    announce("ready")
    times = []
    for _ in range(options.count):
        began = time.monotonic()
        await settle()
        times.append(time.monotonic() - began)
    finished(began)
    for connection in connections:
        await connection.close()
    return {"seconds": statistics.median(times), "slowest_s": max(times), "rebalances": options.count}


class ConsumerMember:
    """One member of a consumer group (KIP-848). It heartbeats when it is told to, and gives up at once what it must."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.id = uuid_to_string(uuid4().bytes)
        self.epoch = 0
        self.owned: list[TopicPartitions] = []
        self.is_reported = False
        """Whether the coordinator knows what the member owns."""

    async def heartbeat(self) -> None:
        """Join, or report what is owned, and adopt the assignment of the answer."""
        joins = self.epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000 if joins else -1,
            subscribed_topic_names=[TOPIC] if joins else None,
            topic_partitions=self.owned if joins or not self.is_reported else None,
        )
        answer = await self.connection.call(request, ConsumerGroupHeartbeatResponse, timeout_s=60)
        if answer.error_code != ErrorCode.NONE:
            raise SystemExit(f"benchmarks: ConsumerGroupHeartbeat: {ErrorCode(answer.error_code).name}")
        self.epoch = answer.member_epoch
        self.is_reported = answer.assignment is None
        if answer.assignment is not None:
            self.owned = answer.assignment.topic_partitions

    async def leave(self) -> None:
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=self.id, member_epoch=-1)
        await self.connection.call(request, ConsumerGroupHeartbeatResponse, timeout_s=60)
        self.epoch, self.owned, self.is_reported = 0, [], False

    @property
    def partitions(self) -> int:
        return sum(len(topic.partitions) for topic in self.owned)


async def consumer_rebalance(options: argparse.Namespace) -> Figures:
    """One member leaves and joins again: until all partitions have an owner and all members are in one epoch."""
    connections = [await connect(options) for _ in range(options.members)]
    await find_coordinator(connections[0])
    members = [ConsumerMember(connection) for connection in connections]

    async def settle() -> None:
        while True:
            await asyncio.gather(*(member.heartbeat() for member in members))
            is_one_epoch = len({member.epoch for member in members}) == 1
            is_known = all(member.is_reported for member in members)
            if is_one_epoch and is_known and sum(member.partitions for member in members) == options.partitions:
                return

    await settle()
    announce("ready")
    times = []
    for number in range(options.count):
        began = time.monotonic()
        await members[number % len(members)].leave()
        await settle()
        times.append(time.monotonic() - began)
    finished(began)
    for connection in connections:
        await connection.close()
    return {"seconds": statistics.median(times), "slowest_s": max(times), "rebalances": options.count}


async def commits(options: argparse.Namespace) -> Figures:
    """Offsets of `--partitions` partitions a request, IN_FLIGHT requests at a time, to keys that come round again
    after `--keys` commits; afterwards the group is asked for what it has.
    """
    connection = await connect(options)
    await find_coordinator(connection)
    numbers = iter(range(options.count // options.partitions))
    names = options.keys // options.partitions

    def request(number: int) -> OffsetCommitRequest:
        partitions = [
            OffsetCommitRequestPartition(partition_index=partition, committed_offset=number)
            for partition in range(options.partitions)
        ]
        topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)]
        return OffsetCommitRequest(group_id=f"{GROUP}-{number % names}", topics=topics)

    async def commit(number: int) -> None:
        while True:
            answer = await connection.call(request(number), OffsetCommitResponse)
            codes = {partition.error_code for topic in answer.topics for partition in topic.partitions}
            if codes == {ErrorCode.NONE}:
                return
            if not codes <= set(LATER):
                raise SystemExit(f"benchmarks: OffsetCommit: {[ErrorCode(code).name for code in codes]}")
            await asyncio.sleep(0.01)

    async def work() -> None:
        for number in numbers:
            await commit(number)

    for number in range(names):
        await commit(number)
    announce("ready")
    began = time.monotonic()
    await asyncio.gather(*(work() for _ in range(IN_FLIGHT)))
    seconds = finished(began)
    await connection.close()
    return {"seconds": seconds, "commits": options.count, "requests": options.count // options.partitions}


async def loaded(options: argparse.Namespace) -> Figures:
    """Ask for every group's offsets until all partitions are loaded; how many there are."""
    connection = await connect(options)
    announce("ready")
    began = time.monotonic()
    waiting = [f"{GROUP}-{number}" for number in range(options.keys // options.partitions)]
    offsets = 0
    while waiting:
        groups = [OffsetFetchRequestGroup(group_id=group, topics=None) for group in waiting]
        answer = await connection.call(OffsetFetchRequest(groups=groups), OffsetFetchResponse, max_version=8)
        later = []
        for group in answer.groups:
            if group.error_code in LATER:
                later.append(group.group_id)
            else:
                offsets += sum(len(topic.partitions) for topic in group.topics)
        waiting = later
        await asyncio.sleep(0.01)
    seconds = finished(began)
    await connection.close()
    return {"seconds": seconds, "offsets": offsets}


async def transactions(options: argparse.Namespace) -> Figures:
    """One producer, one transaction after another, `--records` of 100 B each."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": options.bootstrap, "transactional.id": "bench", "linger.ms": 0})
    producer.init_transactions(30)
    value = bytes(100)

    def one() -> None:
        producer.begin_transaction()
        for _ in range(options.records):
            producer.produce(TOPIC, value, partition=0)
        producer.commit_transaction(30)

    one()
    announce("ready")
    began = time.monotonic()
    for _ in range(options.count):
        one()
    seconds = finished(began)
    return {"seconds": seconds, "transactions": options.count}


COMMANDS: dict[str, Callable[[argparse.Namespace], Coroutine[Any, Any, Figures]]] = {
    "rebalance": rebalance,
    "consumer-rebalance": consumer_rebalance,
    "commits": commits,
    "loaded": loaded,
    "transactions": transactions,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coordinator_load", description=__doc__)
    parser.add_argument("command", choices=list(COMMANDS))
    parser.add_argument("--bootstrap", required=True, help="HOST:PORT")
    parser.add_argument("--members", type=int, default=20)
    parser.add_argument("--partitions", type=int, default=1, help="commits: of one request")
    parser.add_argument("--keys", type=int, default=1000, help="commits: different ones")
    parser.add_argument("--records", type=int, default=1, help="transactions: of each")
    parser.add_argument("--count", type=int, default=10, help="rebalances, commits or transactions")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(COMMANDS[options.command](options))))


if __name__ == "__main__":
    main()
