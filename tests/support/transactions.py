"""A transactional producer that sends plain requests, and the records that a committed reader gets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from client.consumer.fetched import FetchedBatches
from client.topic_partition import TopicPartition
from protocol.error_codes import ErrorCode
from protocol.message import Message
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from support.deadlines import DEADLINE_MS, DEADLINE_S
from support.wire import NOW_MS, batch, fetch

TRANSACTION = 1  # key type
READ_COMMITTED = 1
RETRIABLE = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
)

Ask = Callable[[Message, int], Awaitable[Any]]


async def again(attempt: Callable[[], Awaitable[int]], codes: Iterable[int] = RETRIABLE) -> int:
    """Retry while the answer is a retriable code."""
    deadline = time.monotonic() + DEADLINE_S
    while (code := await attempt()) in codes:
        assert time.monotonic() < deadline, ErrorCode(code)
        await asyncio.sleep(0.01)
    return code


async def find_transactions(ask: Ask, transactional_id: str) -> None:
    """Wait until there is a coordinator."""

    async def attempt() -> int:
        answer = await ask(FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=[transactional_id]), 5)
        return int(answer.coordinators[0].error_code)

    assert await again(attempt) == 0


class TransactionalProducer:
    """One producer with a transactional id. Methods return error codes; `begin` waits until it may begin."""

    def __init__(self, ask: Ask, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self.ask = ask
        self.transactional_id = transactional_id
        self.timeout_ms = timeout_ms
        self.producer_id = -1
        self.producer_epoch = -1
        self.sequences: dict[tuple[str, int], int] = {}

    async def init(self, version: int = 5, producer_id: int = -1, producer_epoch: int = -1) -> int:
        """InitProducerId once."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        answer = await self.ask(request, version)
        if answer.error_code == 0:
            self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
            self.sequences.clear()
        return int(answer.error_code)

    async def begin(self) -> None:
        """Find the coordinator, get an epoch."""
        await find_transactions(self.ask, self.transactional_id)
        assert await again(self.init) == 0

    async def add(self, topic: str, *partitions: int, version: int = 3) -> list[int]:
        """AddPartitionsToTxn once: a code a partition."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))],
        )
        answer = await self.ask(request, version)
        (found,) = answer.results_by_topic_v3_and_below
        assert [one.partition_index for one in found.results_by_partition] == list(partitions)
        return [one.partition_error_code for one in found.results_by_partition]

    async def added(self, topic: str, *partitions: int) -> None:
        """AddPartitionsToTxn until it is done."""

        async def attempt() -> int:
            return max(await self.add(topic, *partitions))

        assert await again(attempt) == 0

    async def produce(
        self, topic: str, *values: bytes, partition: int = 0, version: int = 11, acks: int = -1, timestamp: int = NOW_MS
    ) -> Any:
        """Produce one batch; the partition's answer."""
        key = (topic, partition)
        sequence = self.sequences.get(key, 0)
        records = batch(
            *values,
            timestamp=timestamp,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            sequence=sequence,
            transactional=True,
        )
        data = PartitionProduceData(index=partition, records=records)
        request = ProduceRequest(
            transactional_id=self.transactional_id,
            acks=acks,
            timeout_ms=DEADLINE_MS,
            topic_data=[TopicProduceData(name=topic, partition_data=[data])],
        )
        answer = (await self.ask(request, version)).responses[0].partition_responses[0]
        if answer.error_code == 0:
            self.sequences[key] = sequence + len(values)
        return answer

    async def write(self, topic: str, *values: bytes, partition: int = 0, timestamp: int = NOW_MS) -> int:
        """Add the partition and produce to it; the base offset."""
        await self.added(topic, partition)
        answer = await self.produce(topic, *values, partition=partition, timestamp=timestamp)
        assert answer.error_code == 0
        return int(answer.base_offset)

    async def end(self, committed: bool, version: int = 4) -> int:
        """EndTxn once."""
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=committed,
        )
        return int((await self.ask(request, version)).error_code)

    async def ended(self, committed: bool) -> None:
        """EndTxn, and wait until the transaction is complete."""
        assert await again(lambda: self.end(committed)) == 0
        await until_state(self.ask, self.transactional_id, "CompleteCommit" if committed else "CompleteAbort")


async def describe(ask: Ask, transactional_id: str) -> Any:
    """DescribeTransactions of one id, once its coordinator has loaded."""
    found: list[Any] = []

    async def attempt() -> int:
        answer = await ask(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0)
        found[:] = answer.transaction_states
        return int(found[0].error_code)

    await again(attempt)
    return found[0]


async def until_state(ask: Ask, transactional_id: str, *states: str) -> str:
    """Wait until the transactional id is in one of these states."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        state: str = (await describe(ask, transactional_id)).transaction_state
        if state in states:
            return state
        assert time.monotonic() < deadline, (transactional_id, state, states)
        await asyncio.sleep(0.005)


async def committed(ask: Ask, topic: str, partition: int = 0) -> list[bytes]:
    """The values that a committed reader gets, from the beginning."""
    values: list[bytes] = []
    offset = 0
    while True:
        answer = await ask(fetch(topic, offset, partition, isolation_level=READ_COMMITTED), 12)
        found = answer.responses[0].partitions[0]
        assert found.error_code == 0, found
        if not found.records:
            return values
        aborted = [(one.producer_id, one.first_offset) for one in found.aborted_transactions or ()]
        batches = FetchedBatches(
            TopicPartition(topic, partition), offset, memoryview(found.records), high_watermark=0, aborted=aborted
        )
        values += [record.value for record in batches.records()]
        offset = batches.next_offset


async def offsets(ask: Ask, topic: str, partition: int = 0) -> tuple[int, int]:
    """(last stable offset, high watermark)."""
    answer = await ask(fetch(topic, 0, partition, isolation_level=READ_COMMITTED), 12)
    found = answer.responses[0].partitions[0]
    assert found.error_code == 0, found
    return found.last_stable_offset, found.high_watermark
