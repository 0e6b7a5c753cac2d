"""Consumer groups (KIP-848) in a live broker: requests, offsets, lists, migration, restarts."""

from __future__ import annotations

import asyncio
import itertools

import pytest
import pytest_asyncio

from broker.coordinator.consumer.records import KEY_VERSIONS, read_record
from broker.coordinator.coordinator_log import Appended, settled
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from protocol.messages.consumer_group_metadata import ConsumerGroupMetadataKey
from protocol.messages.consumer_protocol import AssignedTopicPartition, ConsumerProtocolAssignment
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.record_batch import iter_batches
from protocol.versioned import decode_versioned, encode_versioned, peek_version
from support.consumer_member import ConsumerMember, describe, settle
from support.groups import GroupMember, commit, fetch_offsets, find_group
from support.held_commits import hold, let_go, resign
from support.live import Clock, live
from support.polling import until
from support.wire import create_topic, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")
_NUMBERS = itertools.count(1)


@pytest.fixture
def group_id():
    return f"group-{next(_NUMBERS)}"


@pytest_asyncio.fixture(loop_scope="module")
async def topic(client, name):
    made = name()
    await create_topic(client, made, partitions=4)
    return made


async def described_classic(client, group_id):
    return (await client.call(DescribeGroupsRequest(groups=[group_id]), 5)).groups[0]


async def listed(client, group_id, **filters):
    answer = await client.call(ListGroupsRequest(**filters), 5)
    return [(one.protocol_type, one.group_state, one.group_type) for one in answer.groups if one.group_id == group_id]


async def deleted(client, group_id):
    return (await client.call(DeleteGroupsRequest(groups_names=[group_id]), 2)).results[0].error_code


async def fetched(client, group_id, member_id, epoch):
    group = OffsetFetchRequestGroup(group_id=group_id, topics=None, member_id=member_id, member_epoch=epoch)
    return (await client.call(OffsetFetchRequest(groups=[group]), 9)).groups[0].error_code


@pytest.mark.parametrize("version", [0, 1])
async def test_all_requests_of_a_member_in_every_version(client, group_id, topic, version):
    await find_group(client.call, group_id)
    member = ConsumerMember(client.call, group_id, "mine" if version else "", topic)
    joined = await member.join(version)
    assert (joined.member_epoch, joined.heartbeat_interval_ms, member.partitions) == (1, 5000, [0, 1, 2, 3])
    assert joined.member_id == "mine" if version else len(joined.member_id) == 36
    found = await describe(client.call, group_id, version)
    assert (found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name) == (
        "Stable",
        1,
        1,
        "uniform",
    )
    (one,) = found.members
    assert (one.member_id, one.member_epoch, one.client_id, one.client_host) == (
        member.member_id,
        1,
        "wire",
        "/127.0.0.1",
    )
    assert (one.subscribed_topic_names, one.subscribed_topic_regex) == ([topic], None)
    assert [(some.topic_name, some.partitions) for some in one.assignment.topic_partitions] == [(topic, [0, 1, 2, 3])]
    assert one.assignment == one.target_assignment
    assert one.member_type == (1 if version else -1)
    assert await listed(client, group_id) == [("consumer", "Stable", "consumer")]
    assert await deleted(client, group_id) == ErrorCode.NON_EMPTY_GROUP
    left = await member.leave()
    assert (left.error_code, left.member_epoch) == (0, -1)
    assert (await describe(client.call, group_id)).group_state == "Empty"
    assert await deleted(client, group_id) == 0
    assert await listed(client, group_id) == []
    assert (await describe(client.call, group_id)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


REFUSED = {
    "no id": ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
    "empty group": ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
    "blank group": ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
    "blank instance": ({"instance_id": " "}, ErrorCode.INVALID_REQUEST),
    "blank rack": ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
    "no timeout": ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
    "a timeout below zero": ({"rebalance_timeout_ms": -2}, ErrorCode.INVALID_REQUEST),
    "no topics": ({"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
    "nothing owned is not said": ({"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
    "an epoch that there is not": ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
    "a temporary leave without instance": ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
    "an assignor that there is not": ({"server_assignor": "cleverest"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
    "a group that there is not": ({"member_epoch": 1}, ErrorCode.GROUP_ID_NOT_FOUND),
    "no member to leave": ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    "no regular expression": ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_invalid_requests_are_refused(client, group_id, topic, case):
    fields, code = REFUSED[case]
    await find_group(client.call, group_id)
    answer = await ConsumerMember(client.call, group_id, "mine", topic).beat(**fields)
    assert (answer.error_code, answer.assignment) == (code, None)
    assert answer.error_message
    assert await listed(client, group_id) == []


async def test_members_share_partitions_and_only_members_of_the_epoch_commit(client, group_id, topic):
    await find_group(client.call, group_id)
    one, two = (ConsumerMember(client.call, group_id, name, topic) for name in ("one", "two"))
    await one.join()
    await two.join()
    await settle(one, two)
    assert sorted(one.partitions + two.partitions) == [0, 1, 2, 3]
    assert len(one.partitions) == 2

    async def committed(member_id, epoch, version=9):
        return await commit(
            client.call, group_id, topic, 7, member_id=member_id, generation=epoch, version=version, metadata="m"
        )

    assert await committed("one", one.epoch) == 0
    assert await committed("one", one.epoch - 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert await committed("nobody", one.epoch) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await committed("", -1) == ErrorCode.UNKNOWN_MEMBER_ID  # administrators only where nobody is
    assert await committed("one", one.epoch, 8) == ErrorCode.UNSUPPORTED_VERSION
    assert (await fetch_offsets(client.call, group_id, topic, 0))[1][0][0] == 7
    assert await fetched(client, group_id, "one", one.epoch) == 0
    assert await fetched(client, group_id, "one", one.epoch + 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert await fetched(client, group_id, "nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    request = OffsetDeleteRequest(
        group_id=group_id, topics=[OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
    )
    answer = await client.call(request, 0)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    for member in (one, two):
        await member.leave()
    assert await committed("", -1) == 0
    assert (await client.call(request, 0)).topics[0].partitions[0].error_code == 0


async def test_groups_are_listed_by_state_and_type(client, group_id, topic):
    await find_group(client.call, group_id)
    member = ConsumerMember(client.call, group_id, "mine", topic)
    await member.join()
    row = ("consumer", "Stable", "consumer")
    assert await listed(client, group_id, types_filter=["Consumer"]) == [row]
    assert await listed(client, group_id, types_filter=["classic"]) == []
    assert await listed(client, group_id, states_filter=["stable"]) == [row]
    assert await listed(client, group_id, states_filter=["Assigning", "Reconciling", "Empty"]) == []
    found = await described_classic(client, group_id)
    assert (found.error_code, found.group_state, found.members) == (0, "Dead", [])
    classic = group_id + "-classic"
    await find_group(client.call, classic)
    await GroupMember(client.call, classic, topics=(topic,)).settle()
    assert (await describe(client.call, classic)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    answer = await client.call(
        ConsumerGroupDescribeRequest(group_ids=[group_id, classic, ""], include_authorized_operations=True), 0
    )
    assert [one.error_code for one in answer.groups] == [0, 69, ErrorCode.INVALID_GROUP_ID]
    assert answer.groups[0].authorized_operations > 0


async def test_a_regular_expression_matches_new_topics(client, group_id, name):
    prefix = name()
    await create_topic(client, f"{prefix}-a", partitions=2)
    await find_group(client.call, group_id)
    member = ConsumerMember(client.call, group_id, "mine")
    member.regex = f"{prefix}-[ab]"
    await member.join()
    assert member.partitions == [0, 1]
    await create_topic(client, f"{prefix}-b", partitions=1)
    await create_topic(client, f"{prefix}-c", partitions=1)
    await settle(member)
    assert member.partitions == [0, 0, 1]
    assert (await describe(client.call, group_id)).members[0].subscribed_topic_regex == member.regex
    other = ConsumerMember(client.call, group_id, "other")
    other.regex = member.regex
    await other.join()
    await settle(member, other)
    assert sorted(member.partitions + other.partitions) == [0, 0, 1]
    await create_topic(client, f"{prefix}-d", partitions=1)  # which it does not match
    await settle(member, other)
    assert sorted(member.partitions + other.partitions) == [0, 0, 1]


async def test_a_group_that_cannot_be_written_does_not_change(broker, client, group_id, topic, monkeypatch):
    await find_group(client.call, group_id)
    staying = ConsumerMember(client.call, group_id, "staying", topic)
    await staying.join()
    not_now = ErrorCode.COORDINATOR_NOT_AVAILABLE

    def refuse(partition, term, batch, timeout_ms, finish, **_):
        return settled(finish(Appended(not_now, -1)))

    monkeypatch.setattr(broker.services.coordination.group_log, "write", refuse)
    joining = ConsumerMember(client.call, group_id, "joining", topic)
    assert (await joining.beat()).error_code == not_now
    assert (await ConsumerMember(client.call, f"{group_id}-new", "joining", topic).beat()).error_code == not_now
    assert (await staying.leave()).error_code == not_now
    assert (await GroupMember(client.call, group_id, topics=(topic,)).join_once(3)).error_code == not_now
    assert (await staying.beat()).error_code == 0
    monkeypatch.undo()
    await joining.join()
    await settle(staying, joining)
    assert sorted(staying.partitions + joining.partitions) == [0, 1, 2, 3]


async def test_leave_group_of_a_member_of_a_consumer_group_is_answered_when_it_is_committed(
    broker, client, group_id, topic
):
    await find_group(client.call, group_id)
    await ConsumerMember(client.call, group_id, "new", topic).join()
    classic = GroupMember(client.call, group_id, topics=(topic,))
    await classic.join()
    log = broker.services.coordination.group_log
    partition = hold(broker, log, group_id)
    sync, end = partition.sync, partition.log.log_end_offset
    async with wire_client(broker.bootstrap_servers) as other:
        leaving = asyncio.create_task(classic.leave())
        await until(lambda: partition.log.log_end_offset > end, "the record is in the log")
        assert len((await describe(other.call, group_id)).members) == 1
        assert not leaving.done()
        resign(broker, partition)
        assert await leaving == ErrorCode.NOT_COORDINATOR
        partition.sync = sync
        broker.services.replicas.role_changed((partition.topic, partition.partition))
        let_go(broker, partition)


async def test_a_classic_group_is_upgraded_and_downgraded(client, group_id, topic):
    await find_group(client.call, group_id)
    classic = GroupMember(client.call, group_id, topics=(topic,))
    await classic.settle()
    assert await classic.commit(topic, 5) == 0
    new = ConsumerMember(client.call, group_id, "new", topic)
    joined = await new.beat()
    # What the leader assigned is no assignment of a consumer: such a group stays what it is.
    assert joined.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    await classic.leave()

    classic = GroupMember(client.call, group_id, topics=(topic,))
    await classic.join()
    assigned = consumer_assignment(topic, [0, 1, 2, 3])
    assert (await classic.sync({classic.member_id: assigned})).assignment == assigned
    await new.join()
    assert await listed(client, group_id) == [("consumer", "Reconciling", "consumer")]
    assert await classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    await classic.join()
    synced = await classic.sync()
    assert owned(synced.assignment) == {topic: [0, 1]}
    await classic.join()  # an eager member has given up all by joining again
    await settle(new)
    assert new.partitions == [2, 3]
    assert owned((await classic.sync()).assignment) == {topic: [0, 1]}
    assert await classic.heartbeat() == 0
    assert (await fetch_offsets(client.call, group_id, topic, 0))[1][0][0] == 5
    assert [one.member_type for one in (await describe(client.call, group_id)).members] == [0, 1]
    assert await classic.commit(topic, 6, version=8) == 0

    await new.leave()
    assert [row[2] for row in await listed(client, group_id)] == ["classic"]
    assert await classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    await classic.settle()
    assert (await described_classic(client, group_id)).group_state == "Stable"
    assert (await fetch_offsets(client.call, group_id, topic, 0))[1][0][0] == 6
    assert await classic.leave() == 0
    back = ConsumerMember(client.call, group_id, "back", topic)
    await back.join()  # an empty group is of whatever type its first member is
    assert back.partitions == [0, 1, 2, 3]
    await back.leave()
    await GroupMember(client.call, group_id, topics=(topic,)).settle()
    assert [row[2] for row in await listed(client, group_id)] == ["classic"]
    assert (await fetch_offsets(client.call, group_id, topic, 0))[1][0][0] == 6


async def test_a_group_is_downgraded_when_a_classic_consumer_replaces_its_last_other_member(client, group_id, topic):
    await find_group(client.call, group_id)
    static = ConsumerMember(client.call, group_id, "new", topic, instance_id="i")
    await static.join()
    other = GroupMember(client.call, group_id, topics=(topic,))
    await other.join()
    assert owned((await other.sync()).assignment) == {}
    for _ in ("it is told what to give up", "it has done so"):
        await static.beat()
    await other.until_rebalance()
    await other.join()
    assert owned((await other.sync()).assignment) == {topic: [2, 3]}
    successor = GroupMember(client.call, group_id, instance_id="i", topics=(topic,))
    await successor.join()
    assert await listed(client, group_id) == [("consumer", "Stable", "classic")]
    assert owned((await successor.sync()).assignment) == {topic: [0, 1]}
    assert owned((await other.sync()).assignment) == {topic: [2, 3]}
    assert (await static.beat()).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert [await one.heartbeat() for one in (successor, other)] == [0, 0]


def consumer_assignment(topic, partitions):
    assigned = [AssignedTopicPartition(topic=topic, partitions=partitions)]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=assigned), 0)


def owned(data):
    read, _ = decode_versioned(ConsumerProtocolAssignment, data)
    return {one.topic: one.partitions for one in read.assigned_partitions}


@pytest.mark.asyncio(loop_scope="function")
async def test_a_restart_keeps_the_converted_type_of_groups(tmp_path):
    async with live(tmp_path / "data", restarts=True) as broker:
        await broker.create("t", 4)
        old, new = {}, {}
        for group_id in ("up", "down"):
            await find_group(broker.ask, group_id)
            old[group_id] = GroupMember(broker.ask, group_id, topics=("t",))
            new[group_id] = ConsumerMember(broker.ask, group_id, "new", "t")
        await old["up"].join()
        await old["up"].sync({})
        await new["up"].join()
        await new["down"].join()
        await old["down"].join()
        assert await commit(broker.ask, "down", "t", 3, member_id="new", generation=1, version=9) == 0
        assert (await new["down"].leave()).error_code == 0
        before = await describe(broker.ask, "up")
        assert len(before.members) == 2
    async with live(tmp_path / "data", restarts=True) as broker:
        for group_id in ("up", "down"):
            await find_group(broker.ask, group_id)
            old[group_id].ask = new[group_id].ask = broker.ask
        assert await describe(broker.ask, "up") == before
        assert await old["up"].heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        found = (await broker.ask(DescribeGroupsRequest(groups=["down"]), 5)).groups[0]
        assert [one.member_id for one in found.members] == [old["down"].member_id]
        assert (await fetch_offsets(broker.ask, "down", "t", 0))[1][0][0] == 3
        await old["down"].settle()


@pytest.mark.asyncio(loop_scope="function")
async def test_offsets_of_unsubscribed_topics_expire(tmp_path):
    clock = Clock()
    settings = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "3600000"}
    async with live(tmp_path / "data", settings, clock=clock) as broker:
        await broker.create("t", 2)
        await broker.create("u", 1)
        await find_group(broker.ask, "g")
        member = ConsumerMember(broker.ask, "g", "mine", "t")
        await member.join()
        for topic in ("t", "u"):
            assert await commit(broker.ask, "g", topic, 5, member_id="mine", generation=1, version=9) == 0
        clock.now_ms += 60_000
        offsets = broker.broker.services.coordination.groups.offsets
        assert await offsets.expire() == 1
        assert (await fetch_offsets(broker.ask, "g", "t", 0))[1][0][0] == 5
        assert (await fetch_offsets(broker.ask, "g", "u", 0))[1][0][0] == -1
        await member.leave()
        assert await offsets.expire() == 1
        assert (await describe(broker.ask, "g")).error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.asyncio(loop_scope="function")
async def test_heartbeats_are_answered_after_their_records_are_committed(tmp_path):
    """What is written waits in the log; a heartbeat without news waits for it, too, and hears of its failure."""
    async with live(tmp_path / "data") as broker:
        await broker.create("t", 2)
        await find_group(broker.ask, "g")
        member = ConsumerMember(broker.ask, "g", "mine", "t")
        store = broker.broker.services.coordination.groups._store
        written = []

        def hold(group_id, records, in_log):
            in_log()
            written.append(asyncio.get_running_loop().create_future())
            return written[-1]

        store.store_records = hold
        other = await broker.another("test")  # another client id would be news
        joining = asyncio.create_task(member.beat())
        await until(lambda: written, "the join is written")
        again = ConsumerMember(other.request, "g", "mine", "t")
        again.epoch = 1
        waiting = asyncio.create_task(again.beat(topic_partitions=None))
        third = await broker.another()
        assert (await describe(third.request, "g")).group_epoch == 1
        assert not joining.done()
        assert not waiting.done()
        written[0].set_result(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
        assert (await joining).error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert (await waiting).error_code == ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        assert (await again.beat(topic_partitions=None)).error_code == 0
        assert (await describe(third.request, "g")).group_state == "Stable"
        await other.close()
        await third.close()


@pytest.mark.asyncio(loop_scope="function")
async def test_a_restart_keeps_groups_and_their_deletions(tmp_path):
    async with live(tmp_path / "data", restarts=True) as broker:
        await broker.create("t", 4)
        await find_group(broker.ask, "g")
        one = ConsumerMember(broker.ask, "g", "one", "t")
        two = ConsumerMember(broker.ask, "g", "two", "t", instance_id="i")
        await one.join()
        await two.join()
        await settle(one, two)
        assert await commit(broker.ask, "g", "t", 3, member_id="one", generation=one.epoch, version=9) == 0
        before = await describe(broker.ask, "g")
        gone = ConsumerMember(broker.ask, "gone", "x", "t")
        await find_group(broker.ask, "gone")
        await gone.join()
        await gone.leave()
        assert (await broker.ask(DeleteGroupsRequest(groups_names=["gone"]))).results[0].error_code == 0
    async with live(tmp_path / "data", restarts=True) as broker:
        await find_group(broker.ask, "g")
        assert await describe(broker.ask, "g") == before
        await find_group(broker.ask, "gone")
        assert (await describe(broker.ask, "gone")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        one.ask = two.ask = broker.ask
        answer = await one.beat()
        assert (answer.error_code, answer.member_epoch) == (0, one.epoch)
        assert await commit(broker.ask, "g", "t", 4, member_id="one", generation=one.epoch, version=9) == 0
        assert (await two.leave(-2)).error_code == 0
        assert (await one.leave()).error_code == 0
        log = broker.broker.services.coordination.group_log
        records = [
            read_record(record.key, record.value)
            for batch in iter_batches(await whole_log(broker, log.partition_for("gone")))
            for record in batch.records()
            if peek_version(record.key) in KEY_VERSIONS
        ]
        assert [record.value for record in records if record.key == ConsumerGroupMetadataKey(group_id="gone")][
            -1
        ] is None


async def whole_log(broker, partition):
    log = broker.log("__consumer_offsets", partition)
    info = log.read(log.log_start_offset, 1 << 24, max_offset=log.log_end_offset)
    return await info.records.read_later(0, len(info.records))
