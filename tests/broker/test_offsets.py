"""Committed offsets in a live broker: commit, fetch, delete, expire; nothing is answered before it is committed."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from broker.coordinator import group_store
from broker.coordinator.classic.group import GroupState
from broker.registry_offsets import RegistryOffsets
from protocol.error_codes import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.record_batch import iter_batches
from registry.embedded.store import EmbeddedStore
from support.broker import broker_process, running_broker
from support.deadlines import DEADLINE_MS
from support.groups import GroupMember, commit, fetch_offsets, find_group
from support.held_commits import commit_before, hold, let_go, resign
from support.live import live
from support.lossy_registry import LossyRegistry
from support.polling import until
from support.transactions import TransactionalProducer, again
from support.wire import create_topic, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")
_NUMBERS = itertools.count(1)
DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def group_id():
    return f"offsets-{next(_NUMBERS)}"


@pytest.fixture
def topic(group_id):
    return f"t-{group_id}"


# -- commit and fetch ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(10))
async def test_a_commit_is_fetched_in_every_version(client, group_id, topic, version):
    await find_group(client.call, group_id)
    await create_topic(client, topic, partitions=2)
    epoch = {"leader_epoch": 3} if version >= 6 else {}
    assert await commit(client.call, group_id, topic, 17, metadata="note", version=version, **epoch) == 0
    code, found = await fetch_offsets(client.call, group_id, topic, 0, 1, version=version)
    assert code == 0
    if version == 0:  # in the registry: no metadata, and "none" is an error
        assert found == {0: (17, -1, "", 0), 1: (-1, -1, "", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)}
        return
    assert found == {0: (17, 3 if version >= 6 else -1, "note", 0), 1: (-1, -1, "", 0)}
    if version >= 2:
        assert await fetch_offsets(client.call, group_id, None, version=version) == (0, {0: found[0]})


async def test_offsets_in_the_registry_are_separate_from_group_offsets(broker, client, group_id, topic):
    await find_group(client.call, group_id)
    await create_topic(client, topic)
    for offset in (5, 6):
        assert await commit(client.call, group_id, topic, offset, version=0) == 0
    assert await commit(client.call, group_id, topic, 9, version=2) == 0
    assert (await fetch_offsets(client.call, group_id, topic, 0, version=0))[1][0][0] == 6
    assert (await fetch_offsets(client.call, group_id, topic, 0, version=1))[1][0][0] == 9
    assert await broker.services.registry_offsets.get(group_id, topic, 0) == 6
    assert await commit(client.call, "", topic, 1, version=0) == ErrorCode.INVALID_GROUP_ID
    assert await commit(client.call, "a/b", topic, 1, version=0) == ErrorCode.INVALID_GROUP_ID
    assert await commit(client.call, group_id, topic, 1, metadata="x" * 4097, version=0) == (
        ErrorCode.OFFSET_METADATA_TOO_LARGE
    )


async def test_several_groups_at_once(client, group_id, topic):
    await find_group(client.call, group_id)
    await create_topic(client, topic)
    names = [f"{group_id}-{number}" for number in range(3)]
    for number, name in enumerate(names):
        assert await commit(client.call, name, topic, number) == 0
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in names])
    answer = await client.call(request, 9)
    assert [(one.group_id, one.topics[0].partitions[0].committed_offset) for one in answer.groups] == [
        (name, number) for number, name in enumerate(names)
    ]


async def test_errors_of_single_partitions(client, group_id, topic):
    await find_group(client.call, group_id)
    await create_topic(client, topic)
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await commit(client.call, group_id, topic, 1, partition=1) == unknown
    assert await commit(client.call, group_id, "no-such-topic", 1) == unknown
    assert await commit(client.call, group_id, topic, 1, metadata="x" * 4096) == 0
    assert await commit(client.call, group_id, topic, 1, metadata="x" * 4097) == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert await commit(client.call, group_id, topic, 2, metadata=None) == 0
    assert (await fetch_offsets(client.call, group_id, topic, 0))[1][0] == (2, -1, "", 0)
    assert await commit(client.call, group_id, topic, -7) == 0  # as in Kafka: it is the group's business
    assert await commit(client.call, "", topic, 3) == 0  # the empty group is allowed here
    assert (await fetch_offsets(client.call, "", topic, 0))[1][0][0] == 3


async def test_only_members_commit_to_a_group_with_members(client, group_id, topic):
    await find_group(client.call, group_id)
    await create_topic(client, topic)
    assert await commit(client.call, group_id, topic, 1, generation=1) == ErrorCode.ILLEGAL_GENERATION
    member = GroupMember(client.call, group_id)
    await member.join()
    assert await member.commit(topic, 1) == ErrorCode.REBALANCE_IN_PROGRESS  # it has not been assigned anything
    await member.sync({})
    assert await member.commit(topic, 1) == 0
    assert await commit(client.call, group_id, topic, 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert await member.commit(topic, 2, generation=member.generation - 1) == ErrorCode.ILLEGAL_GENERATION
    assert await member.commit(topic, 2, member_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert await member.commit(topic, 2, group_instance_id="i") == ErrorCode.UNKNOWN_MEMBER_ID
    assert (await fetch_offsets(client.call, group_id, topic, 0))[1][0][0] == 1
    assert await member.leave() == 0
    assert await commit(client.call, group_id, topic, 3) == 0


async def refused_commit(call, group_id, topic):
    """A commit of 100 partitions that is too large for the log: its error codes."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=number, committed_offset=1, committed_metadata="\u3042" * 4000)
        for number in range(100)
    ]
    request = OffsetCommitRequest(
        group_id=group_id, topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)]
    )
    return {one.error_code for one in (await call(request, 8)).topics[0].partitions}


async def test_a_commit_that_the_log_refuses(client, group_id, topic):
    await find_group(client.call, group_id)
    await create_topic(client, topic, partitions=100)
    assert await refused_commit(client.call, group_id, topic) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    assert await commit(client.call, group_id, topic, 1) == 0
    assert await fetch_offsets(client.call, group_id, None) == (0, {0: (1, -1, "", 0)})


# -- deletion --------------------------------------------------------------------------------------------------------


async def delete_offsets(client, group_id, topic, *partitions):
    named = [OffsetDeleteRequestPartition(partition_index=number) for number in partitions]
    request = OffsetDeleteRequest(group_id=group_id, topics=[OffsetDeleteRequestTopic(name=topic, partitions=named)])
    answer = await client.call(request, 0)
    return answer.error_code, [one.error_code for found in answer.topics for one in found.partitions]


async def test_offsets_of_unsubscribed_topics_are_deleted(client, group_id, topic):
    await find_group(client.call, group_id)
    await create_topic(client, topic, partitions=2)
    await create_topic(client, f"{topic}-other")
    assert await delete_offsets(client, group_id, topic, 0) == (ErrorCode.GROUP_ID_NOT_FOUND, [])
    assert await delete_offsets(client, "", topic, 0) == (ErrorCode.INVALID_GROUP_ID, [])
    member = GroupMember(client.call, group_id, topics=(topic,))
    await member.settle()
    for name in (topic, f"{topic}-other"):
        assert await member.commit(name, 1) == 0
    assert await delete_offsets(client, group_id, topic, 0, 7) == (
        0,
        [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    )
    assert await delete_offsets(client, group_id, f"{topic}-other", 0) == (0, [0])
    assert (await fetch_offsets(client.call, group_id, f"{topic}-other", 0))[1][0][0] == -1
    assert await member.leave() == 0
    assert await delete_offsets(client, group_id, topic, 0, 1) == (0, [0, 0])
    assert await fetch_offsets(client.call, group_id, None) == (0, {})


async def test_a_group_of_many_offsets_is_deleted_in_several_batches(broker, client, group_id, topic, monkeypatch):
    monkeypatch.setattr(group_store, "TOMBSTONES_BYTES", 200)
    await find_group(client.call, group_id)
    await create_topic(client, topic, partitions=20)
    for partition in range(20):
        assert await commit(client.call, group_id, topic, 1, partition=partition) == 0
    log = broker.services.coordination.group_log
    end = broker.services.logs.get(log.topic, log.partition_for(group_id)).log_end_offset
    assert (await client.call(DeleteGroupsRequest(groups_names=[group_id]), 2)).results[0].error_code == 0
    assert (await fetch_offsets(client.call, group_id, None))[1] == {}
    log = broker.services.logs.get(log.topic, log.partition_for(group_id))
    batches = list(iter_batches(log.read(end, 1 << 20, max_offset=log.log_end_offset).records.to_bytes()))
    assert len(batches) > 2
    assert sum(batch.record_count for batch in batches) == 20


async def test_offsets_of_a_group_of_another_protocol_type_are_deleted_only_when_it_is_empty(client, group_id, topic):
    await find_group(client.call, group_id)
    await create_topic(client, topic)
    member = GroupMember(client.call, group_id)
    member.protocol_type = "connect"
    await member.settle()
    assert await delete_offsets(client, group_id, topic, 0) == (ErrorCode.NON_EMPTY_GROUP, [])
    assert await member.leave() == 0


async def test_offsets_are_deleted_with_their_topic(client, group_id, topic):
    await find_group(client.call, group_id)
    await create_topic(client, topic)
    await create_topic(client, f"{topic}-kept")
    assert await commit(client.call, group_id, topic, 1) == 0
    assert await commit(client.call, group_id, f"{topic}-kept", 2) == 0
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=DEADLINE_MS)
    assert (await client.call(request, 6)).responses[0].error_code == 0
    assert (await fetch_offsets(client.call, group_id, topic, 0))[1][0][0] == -1
    assert (await fetch_offsets(client.call, group_id, f"{topic}-kept", 0))[1][0][0] == 2


# -- what is not committed is not answered ---------------------------------------------------------------------------


async def held_commit(client, group_id, topic, partition):
    end = partition.log.log_end_offset
    waiting = asyncio.create_task(commit(client.call, group_id, topic, 5))
    await until(lambda: partition.log.log_end_offset > end, "it is in the log")
    await asyncio.sleep(0)
    assert not waiting.done()
    return waiting


async def test_a_commit_is_answered_and_visible_when_it_is_replicated(broker, client, group_id, topic):
    await find_group(client.call, group_id)
    await create_topic(client, topic)
    partition = hold(broker, broker.services.coordination.group_log, group_id)
    waiting = await held_commit(client, group_id, topic, partition)
    async with wire_client(broker.bootstrap_servers) as other:
        assert (await fetch_offsets(other.call, group_id, topic, 0))[1][0] == (-1, -1, "", 0)
        code = (await fetch_offsets(other.call, group_id, topic, 0, require_stable=True))[1][0][3]
        assert code == ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert not waiting.done()
        let_go(broker, partition)
        assert await waiting == 0
        assert (await fetch_offsets(other.call, group_id, topic, 0, require_stable=True))[1][0] == (5, -1, "", 0)


async def test_a_commit_that_the_log_refuses_does_not_replace_one_that_waits(broker, client, group_id, topic):
    await find_group(client.call, group_id)
    await create_topic(client, topic, partitions=100)
    partition = hold(broker, broker.services.coordination.group_log, group_id)
    waiting = await held_commit(client, group_id, topic, partition)
    async with wire_client(broker.bootstrap_servers) as other:
        assert await refused_commit(other.call, group_id, topic) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}
    let_go(broker, partition)
    assert await waiting == 0
    assert (await fetch_offsets(client.call, group_id, topic, 0))[1][0][0] == 5


async def test_a_coordinator_that_resigns_before_replication_does_not_acknowledge(broker, client, group_id, topic):
    await find_group(client.call, group_id)
    await create_topic(client, topic)
    partition = hold(broker, broker.services.coordination.group_log, group_id)
    sync = partition.sync
    waiting = await held_commit(client, group_id, topic, partition)
    resign(broker, partition)
    assert await waiting == ErrorCode.NOT_COORDINATOR
    assert await commit(client.call, group_id, topic, 6) == ErrorCode.NOT_COORDINATOR
    partition.sync = sync
    broker.services.replicas.role_changed((partition.topic, partition.partition))
    for _ in range(10):  # what is not committed is not told either
        assert await fetch_offsets(client.call, group_id, topic, 0) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {})
    let_go(broker, partition)
    await find_group(client.call, group_id)
    # It is in the log of the leader, and so committed in the end: "not known" was the truth.
    assert (await fetch_offsets(client.call, group_id, topic, 0))[1][0][0] == 5


async def test_topics_that_another_broker_does_not_know_do_not_end_a_commit(broker, client, group_id):
    """A broker that has just started knows no topic; a consumer gives up a commit for that, and looks for the other."""
    await find_group(client.call, group_id)
    partition = hold(broker, broker.services.coordination.group_log, group_id)
    sync = partition.sync
    resign(broker, partition)
    assert await commit(client.call, group_id, "not-known-yet", 1) == ErrorCode.NOT_COORDINATOR
    partition.sync = sync
    broker.services.replicas.role_changed((partition.topic, partition.partition))
    let_go(broker, partition)
    await find_group(client.call, group_id)
    assert await commit(client.call, group_id, "not-known-yet", 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_an_assignment_is_sent_when_it_is_replicated(broker, client, group_id):
    await find_group(client.call, group_id)
    member = GroupMember(client.call, group_id)
    await member.join()
    partition = hold(broker, broker.services.coordination.group_log, group_id)
    end = partition.log.log_end_offset
    waiting = asyncio.create_task(member.sync({member.member_id: b"x"}))
    await until(lambda: partition.log.log_end_offset > end, "it is in the log")
    assert not waiting.done()
    sync = partition.sync
    resign(broker, partition)
    assert (await waiting).error_code == ErrorCode.NOT_COORDINATOR
    partition.sync = sync
    let_go(broker, partition)
    broker.services.replicas.role_changed((partition.topic, partition.partition))


async def test_a_broker_that_stops_before_replication_does_not_acknowledge(tmp_path):
    async with running_broker(tmp_path / "data") as broker, wire_client(broker.bootstrap_servers) as client:
        await find_group(client.call, "g")
        await create_topic(client, "t")
        waiting = await held_commit(client, "g", "t", hold(broker, broker.services.coordination.group_log, "g"))
        broker.stop()
        outcome = (await asyncio.gather(waiting, return_exceptions=True))[0]
        assert outcome != 0, outcome


async def test_a_deletion_is_answered_when_it_is_replicated(broker, client, group_id, topic):
    await find_group(client.call, group_id)
    await create_topic(client, topic)
    assert await commit(client.call, group_id, topic, 1) == 0
    partition = hold(broker, broker.services.coordination.group_log, group_id)
    end = partition.log.log_end_offset
    waiting = asyncio.create_task(client.call(DeleteGroupsRequest(groups_names=[group_id]), 2))
    await until(lambda: partition.log.log_end_offset > end, "it is in the log")
    assert not waiting.done()
    let_go(broker, partition)
    assert (await waiting).results[0].error_code == 0


# -- over a restart --------------------------------------------------------------------------------------------------


async def test_groups_and_offsets_survive_a_kill(tmp_path):
    with broker_process(tmp_path / "data", offsets_topic_num_partitions="3") as process:
        async with wire_client(process.bootstrap) as client:
            for group_id in ("g", "simple", "gone"):  # three partitions of the offsets topic, maybe
                await find_group(client.call, group_id)
            await create_topic(client, "t", partitions=2)
            member = GroupMember(client.call, "g", instance_id="i", topics=("t",))
            await member.settle()
            assert await member.commit("t", 5, metadata="five") == 0
            assert await commit(client.call, "simple", "t", 6, 1) == 0
            assert await commit(client.call, "gone", "t", 7) == 0
            assert (await client.call(DeleteGroupsRequest(groups_names=["gone"]), 2)).results[0].error_code == 0
        process.kill()
        process.start()
        async with wire_client(process.bootstrap) as client:
            for group_id in ("g", "simple", "gone"):
                await find_group(client.call, group_id)
            member.ask = client.call
            assert await member.heartbeat() == 0
            assert (await member.sync()).assignment == b"mine"
            assert (await fetch_offsets(client.call, "g", None))[1] == {0: (5, -1, "five", 0)}
            assert (await fetch_offsets(client.call, "simple", None))[1] == {1: (6, -1, "", 0)}
            groups = (await client.call(ListGroupsRequest(), 5)).groups
            assert {one.group_id: one.group_state for one in groups} == {"g": "Stable", "simple": "Empty"}


async def test_requests_get_coordinator_load_in_progress_during_loading(broker, client, group_id, topic):
    await find_group(client.call, group_id)
    await create_topic(client, topic)
    assert await commit(client.call, group_id, topic, 4) == 0
    log = broker.services.coordination.group_log
    partition = broker.services.replicas.partitions[(log.topic, log.partition_for(group_id))]
    fs = partition.log.files.fs
    original, held = fs.run_blocking, asyncio.Event()

    async def slow(work):
        await held.wait()
        return await original(work)

    sync = partition.sync
    resign(broker, partition)
    fs.run_blocking = slow
    try:
        partition.sync = sync
        broker.services.replicas.role_changed((partition.topic, partition.partition))
        loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await commit(client.call, group_id, topic, 5) == loading
        assert await fetch_offsets(client.call, group_id, topic, 0) == (loading, {})
        member = GroupMember(client.call, group_id)
        assert (await member.join_once()).error_code == loading
        assert await member.leave() == loading
        assert await member.heartbeat() == 0  # all is well, as far as members need to know
        assert (await member.sync()).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert (await client.call(ListGroupsRequest(), 5)).error_code == loading
        answer = await client.call(DeleteGroupsRequest(groups_names=[group_id]), 2)
        assert answer.results[0].error_code == loading
    finally:
        fs.run_blocking = original
        held.set()
    await find_group(client.call, group_id)
    assert (await fetch_offsets(client.call, group_id, topic, 0))[1][0][0] == 4


# -- expiry ----------------------------------------------------------------------------------------------------------


async def test_offsets_expire_by_the_rules_of_kip_211(tmp_path):
    async with live(tmp_path / "data") as broker:
        ask, clock = broker.ask, broker.clock
        offsets = broker.broker.services.coordination.groups.offsets
        await find_group(ask, "g")
        for topic in ("used", "unused"):
            await broker.create(topic)
        member = GroupMember(ask, "member", topics=("used",))
        await member.settle()
        for topic in ("used", "unused"):
            assert await member.commit(topic, 1) == 0
        assert await commit(ask, "simple", "used", 1) == 0
        assert await commit(ask, "own-expiry", "used", 1, version=4, retention_time_ms=DAY_MS) == 0
        emptied = GroupMember(ask, "emptied")
        await emptied.settle()
        assert await emptied.commit("used", 1) == 0

        async def left():
            await offsets.expire()
            names = ("member", "simple", "own-expiry", "emptied")
            found = {name: (await fetch_offsets(ask, name, None, version=9)) for name in names}
            listed = {one.group_id for one in (await ask(ListGroupsRequest(), 5)).groups}
            return {name: len(one[1]) for name, one in found.items()}, listed

        everything = {"member", "simple", "own-expiry", "emptied"}

        # partition numbers are the keys, and both of the member's topics have but one: count by topic
        async def member_topics():
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="member", topics=None)])
            return {topic.name for topic in (await ask(request, 9)).groups[0].topics}

        clock.now_ms += DAY_MS - 1
        assert (await left())[1] == everything
        clock.now_ms += 1
        assert (await left())[1] == everything - {"own-expiry"}
        clock.now_ms += 6 * DAY_MS - 1
        assert await emptied.leave() == 0
        assert (await left())[1] == everything - {"own-expiry"}
        assert await member_topics() == {"used", "unused"}
        clock.now_ms += 1
        assert (await left())[1] == {"member", "emptied"}
        assert await member_topics() == {"used"}  # the group is not subscribed to the other
        clock.now_ms += 7 * DAY_MS - 2
        assert (await left())[1] == {"member", "emptied"}
        clock.now_ms += 1
        assert (await left())[1] == {"member"}  # since it was left, not since the commit
        clock.now_ms += 30 * DAY_MS
        assert await member_topics() == {"used"}
        await offsets.expire()
        assert await member_topics() == {"used"}
        (group,) = [group for _, group in offsets._partitions.all_groups()]
        assert group.state is GroupState.STABLE
        assert await member.leave() == 0


async def test_expired_offsets_do_not_return_after_a_restart(tmp_path):
    async with live(tmp_path / "data", restarts=True) as broker:
        await find_group(broker.ask, "g")
        await broker.create("t")
        for name in ("old", "new"):
            assert await commit(broker.ask, name, "t", 1) == 0
            broker.clock.now_ms += 4 * DAY_MS
        clock = broker.clock
        assert await broker.broker.services.coordination.groups.offsets.expire() == 1
    async with live(tmp_path / "data", restarts=True, clock=clock) as broker:
        await find_group(broker.ask, "new")
        await find_group(broker.ask, "old")
        assert await fetch_offsets(broker.ask, "old", None) == (0, {})
        assert await fetch_offsets(broker.ask, "new", None) == (0, {0: (1, -1, "", 0)})


# -- transactions ----------------------------------------------------------------------------------------------------


async def commit_in_transaction(client, producer, group_id, topic, version=4, **fields):
    """One TxnOffsetCommit of offset 7 in partition 0: its error code."""
    one = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=7, committed_metadata="m")
    request = TxnOffsetCommitRequest(
        transactional_id=producer.transactional_id,
        group_id=group_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[one])],
        **fields,
    )
    return (await client.call(request, version)).topics[0].partitions[0].error_code


async def add_group(client, producer, group_id):
    """AddOffsetsToTxn until it is done."""
    request = AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        group_id=group_id,
    )

    async def attempt():
        return (await client.call(request, 4)).error_code

    assert await again(attempt) == 0


@pytest.mark.parametrize("commits", [True, False])
async def test_offsets_of_a_transaction_become_visible_when_it_commits(client, group_id, topic, commits):
    await find_group(client.call, group_id)
    await create_topic(client, topic)
    assert await commit(client.call, group_id, topic, 1) == 0
    producer = TransactionalProducer(client.call, f"txn-{group_id}")
    await producer.begin()

    async def send(version=4, **fields):
        return await commit_in_transaction(client, producer, group_id, topic, version, **fields)

    assert await send() == ErrorCode.TRANSACTION_ABORTABLE  # the transaction does not know of the group (KIP-890)
    assert await send(3) == ErrorCode.INVALID_TXN_STATE
    await add_group(client, producer, group_id)
    assert await send(generation_id=5, member_id="nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    for version in range(5):
        assert await send(version) == 0
    assert (await fetch_offsets(client.call, group_id, topic, 0))[1][0][0] == 1
    code = (await fetch_offsets(client.call, group_id, topic, 0, require_stable=True))[1][0][3]
    assert code == ErrorCode.UNSTABLE_OFFSET_COMMIT
    await producer.ended(commits)
    found = (await fetch_offsets(client.call, group_id, topic, 0, require_stable=True))[1][0]
    assert found == ((7, -1, "m", 0) if commits else (1, -1, "", 0))


@pytest.mark.parametrize("commits", [True, False])
async def test_a_transaction_may_end_while_its_offsets_are_loaded(broker, client, group_id, topic, commits):
    await find_group(client.call, group_id)
    await create_topic(client, topic, partitions=2)
    assert await commit(client.call, group_id, topic, 1) == 0
    producer = TransactionalProducer(client.call, f"txn-{group_id}")
    await producer.begin()
    await add_group(client, producer, group_id)
    assert await commit_in_transaction(client, producer, group_id, topic) == 0
    partition = hold(broker, broker.services.coordination.group_log, group_id)
    sync, end = partition.sync, partition.log.log_end_offset
    waiting = asyncio.create_task(commit(client.call, group_id, topic, 5, partition=1))
    await until(lambda: partition.log.log_end_offset > end, "what is loaded is not committed")
    resign(broker, partition)
    partition.sync = sync
    broker.services.replicas.role_changed((partition.topic, partition.partition))
    assert await waiting == ErrorCode.NOT_COORDINATOR
    loading = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {})
    assert await fetch_offsets(client.call, group_id, topic, 0) == loading
    end = partition.log.log_end_offset
    assert await again(lambda: producer.end(commits)) == 0
    await until(lambda: partition.log.log_end_offset > end, "the marker is in the log")
    commit_before(broker, partition, end)  # all that was loaded, but not the marker
    assert await fetch_offsets(client.call, group_id, topic, 0) == loading
    let_go(broker, partition)
    await find_group(client.call, group_id)
    assert await producer.end(commits) == 0
    found = (await fetch_offsets(client.call, group_id, topic, 0, require_stable=True))[1][0]
    assert found == ((7, -1, "m", 0) if commits else (1, -1, "", 0))


# -- lost connections to ZooKeeper -------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_applied", [False, True], ids=["not applied", "applied"])
@pytest.mark.parametrize("write", [1, 2])
async def test_offsets_are_stored_although_the_answers_of_zookeeper_are_lost(write, is_applied):
    store = await EmbeddedStore.open()
    registry = LossyRegistry(store.session())
    await registry.start()
    registry.is_applied = is_applied
    offsets = RegistryOffsets(registry)
    for offset in (5, 6):  # the znode is created, and changed
        registry.writes_left = write
        await offsets.set("g", "t", 0, offset)
        registry.writes_left = None
        assert await offsets.get("g", "t", 0) == offset
    await registry.close()
    await store.close()
