"""The consumer: alone, by hand and in groups; what is committed, what is handed out again, when partitions move.

Run against our broker and librdkafka's mock cluster, but for what that does not have (times) or takes its time for
(a rebalance among several takes five seconds there).
"""

import asyncio
import contextlib
import itertools

import pytest

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.consumer.reader_state import Timestamp
from client.consumer.rebalance_listener import RebalanceListener
from client.errors import (
    CommitFailedError,
    IllegalStateError,
    InvalidOptionError,
    KafkaError,
    NoOffsetError,
)
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from protocol.messages.join_group import JoinGroupResponse
from protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from support.broker import broker_process, settings
from support.deadlines import DEADLINE_MS
from support.fake_broker import CLOSE
from support.fake_coordinator import RefusingGroup
from support.polling import until
from support.quick_groups import BROKER_SETTINGS, PROTOCOLS, quick_consumer
from support.wire import wire_client

_NUMBERS = itertools.count(1)
PARTITIONS = 4  # of every topic of the mock cluster
SETTINGS = BROKER_SETTINGS | {"num.partitions": str(PARTITIONS), "log.retention.ms": "-1"}


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """Our broker, with heartbeats that come quickly."""
    with broker_process(tmp_path_factory.mktemp("broker") / "data", **SETTINGS) as process:
        yield process.bootstrap


@pytest.fixture(params=["ours", "mock"])
def servers(request):
    return (
        request.getfixturevalue("ours")
        if request.param == "ours"
        else request.getfixturevalue("mock_cluster").bootstrap
    )


@pytest.fixture
def name():
    """Of a topic and a group that nobody else uses."""
    return f"consumer-{next(_NUMBERS)}"


@pytest.fixture(params=PROTOCOLS)
def mode(request):
    return PROTOCOLS[request.param]


async def topic(servers, name, partitions=PARTITIONS):
    """Make a topic. The mock cluster makes its own when it is asked for one."""
    async with Producer(bootstrap_servers=servers) as asking, Admin(bootstrap_servers=servers) as admin:
        if partitions != PARTITIONS:
            await admin.create_topic(name, partitions)
        assert await asking.partitions_for(name) == list(range(partitions))


async def write(servers, name, values, partition=0):
    async with Producer(bootstrap_servers=servers) as producer:
        futures = [producer.send_nowait(name, b"%d" % value, key=b"k", partition=partition) for value in values]
        await producer.flush()
        return [future.result() for future in futures]


async def take(source, count):
    """So many values, by `async for`; the last of them stays in hand."""
    values = []
    async for record in source:
        values.append(int(record.value))
        if len(values) == count:
            return values
    raise AssertionError


async def committed(source, name, partition=0):
    found = await source.committed([TopicPartition(name, partition)])
    return {number: one.offset for (_, number), one in found.items()}.get(partition)


async def eventually(ask, answer):
    async def is_so():
        return await ask() == answer

    await until(is_so, f"the answer is {answer}")


# -- alone -----------------------------------------------------------------------------------------------------------


async def test_all_partitions_of_a_topic_without_a_group(servers, name):
    await topic(servers, name)
    for partition in range(4):
        await write(servers, name, [partition] * 5, partition)
    async with quick_consumer(servers, name) as source:
        assert sorted(await take(source, 20)) == [0] * 5 + [1] * 5 + [2] * 5 + [3] * 5
        assert sorted(source.assignment()) == [TopicPartition(name, partition) for partition in range(4)]
        assert source.subscription() == [name]
        assert [source.lag(one) for one in source.assignment()] == [0, 0, 0, 0]
        with pytest.raises(IllegalStateError, match="group_id"):
            await source.commit()
        with pytest.raises(IllegalStateError, match="group_id"):
            source.group_metadata()


async def test_new_partitions_are_read_from_their_beginning(ours, name):
    await topic(ours, name, 1)
    async with quick_consumer(ours, name, auto_offset_reset="latest") as source, Admin(bootstrap_servers=ours) as admin:
        await until(lambda: source.is_known(TopicPartition(name, 0)), "the end is known")
        await admin.create_partitions(name, 2)
        await write(ours, name, [7], 1)
        assert await take(source, 1) == [7]


async def test_getmany(servers, name):
    await topic(servers, name)
    for partition in range(2):
        await write(servers, name, range(10), partition)
    found = {}
    async with quick_consumer(servers, name, max_poll_records=7) as source:
        while sum(map(len, found.values())) < 20:
            some = await source.getmany()
            assert 0 < sum(map(len, some.values())) <= 7
            for partition, records in some.items():
                assert source.position(partition) == records[-1].offset + 1
                found.setdefault(partition.partition, []).extend(int(record.value) for record in records)
        assert await source.getmany(timeout_ms=10) == {}
        await write(servers, name, [10, 11, 12])
        more = []
        while len(more) < 3:
            more += [int(one.value) for of in (await source.getmany(max_records=1)).values() for one in of]
        assert more == [10, 11, 12]
    assert found == {0: list(range(10)), 1: list(range(10))}


async def test_getmany_and_async_for_in_turn(servers, name):
    await topic(servers, name)
    await write(servers, name, range(20))
    values = []
    async with quick_consumer(servers, name) as source:
        while len(values) < 20:
            values += await take(source, 1)
            if len(values) < 20:
                values += [int(one.value) for of in (await source.getmany(max_records=2)).values() for one in of]
            if len(values) == 9:
                batches = await source.fetch_batches()
                values += [int(record.value) for record in batches.records()]
    assert values == list(range(20))


async def test_deserializers(servers, name):
    await topic(servers, name)
    await write(servers, name, [3])
    async with quick_consumer(servers, name, value_deserializer=int, key_deserializer=bytes.decode) as source:
        record = await anext(source)
        assert (record.key, record.value) == ("k", 3)
        await write(servers, name, [4])
        ((record,),) = (await source.getmany()).values()
        assert record.value == 4


async def test_a_record_that_cannot_be_deserialized_is_not_skipped(servers, name):
    await topic(servers, name)
    await write(servers, name, [1, 2, 0, 4])
    partition = TopicPartition(name, 0)
    async with quick_consumer(servers, name, value_deserializer=lambda value: 4 // int(value)) as source:
        assert await take(source, 2) == [4, 2]
        for ask in (source.__anext__, source.getmany, source.__anext__):
            with pytest.raises(ZeroDivisionError):
                await ask()
            assert source.position(partition) == 2
        source.seek(partition, 3)
        assert await take(source, 1) == [1]


async def test_manual_assignment(servers, name):
    await topic(servers, name)
    await write(servers, name, range(10))
    first, second = TopicPartition(name, 0), TopicPartition(name, 1)
    async with quick_consumer(servers) as source:
        source.assign([first, second])
        assert await take(source, 10) == list(range(10))
        source.assign({first: 8})
        assert await take(source, 2) == [8, 9]
        assert source.assignment() == [first]
        source.seek(first, 0)
        assert await take(source, 1) == [0]
        with pytest.raises(IllegalStateError, match="unsubscribe"):
            await source.subscribe([name])
        await source.unsubscribe()
        assert source.assignment() == []
        await source.subscribe([name])
        assert await take(source, 10) == list(range(10))
        with pytest.raises(IllegalStateError, match="unsubscribe"):
            source.incremental_assign({first: 0})
        with pytest.raises(IllegalStateError, match="unsubscribe"):
            source.assign([first])


async def test_seek_to_a_time(ours, name):
    await topic(ours, name)
    partition = TopicPartition(name, 0)
    async with Producer(bootstrap_servers=ours) as producer, quick_consumer(ours) as source:
        for value in range(10):
            await producer.send(name, b"%d" % value, partition=0, timestamp_ms=1000 + value)
        source.assign([partition])
        assert await take(source, 10) == list(range(10))
        source.seek(partition, Timestamp(1007))
        assert await take(source, 3) == [7, 8, 9]


async def test_paused(servers, name):
    await topic(servers, name)
    await write(servers, name, range(10))
    resting, other = TopicPartition(name, 0), TopicPartition(name, 1)
    async with quick_consumer(servers, name) as source:
        assert await take(source, 3) == [0, 1, 2]
        source.pause([resting])  # in the middle of what was fetched
        assert source.paused() == [resting]
        await write(servers, name, range(20, 25), 1)
        assert await take(source, 5) == list(range(20, 25))
        assert await source.getmany(timeout_ms=100) == {}
        source.resume([resting])
        assert await take(source, 7) == list(range(3, 10))
        source.pause([resting, other])
        await write(servers, name, range(10, 12))
        assert await source.getmany(timeout_ms=100) == {}
        source.resume([resting, other])
        assert await take(source, 2) == [10, 11]


async def test_manual_assignment_starts_at_committed_offsets(servers, name):
    await topic(servers, name)
    await write(servers, name, range(10))
    partition = TopicPartition(name, 0)
    async with quick_consumer(servers, group_id=name) as source:
        source.assign([partition])
        assert await take(source, 4) == [0, 1, 2, 3]
        await source.commit({partition: 3})
        assert await committed(source, name) == 3
        await source.commit({partition: OffsetAndMetadata(4, metadata="four")})
        assert (await source.committed([partition]))[partition].metadata == "four"
        assert source.group_metadata().generation_id == -1
    async with quick_consumer(servers, group_id=name, auto_offset_reset="none") as source:
        source.assign([partition])
        assert await take(source, 6) == list(range(4, 10))


async def test_the_last_of_two_assignments_applies(ours, name):
    """Although the committed offsets of the first are still being asked for."""
    await topic(ours, name, 3)
    first, second, third = (TopicPartition(name, number) for number in range(3))
    async with quick_consumer(ours, group_id=name) as source:
        source.assign([first])
        source.assign([second])
        await until(source.assignment, "the committed offset is known")
        assert source.assignment() == [second]
        source.assign([first])
        source.assign({third: 0})
        assert await source.committed([first]) == {}  # asked after the first assignment's question
        assert source.assignment() == [third]
        await source.unsubscribe()
        source.assign([first])
        await source.unsubscribe()
        assert await source.committed([first]) == {}
        assert source.assignment() == []


async def test_no_offset_and_no_policy(servers, name):
    await topic(servers, name)
    async with quick_consumer(servers, name, group_id=name, auto_offset_reset="none") as source:
        with pytest.raises(NoOffsetError, match=rf"{name}-\d: the group has committed no offset"):
            await anext(source)


# -- what is committed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("servers", "mode"),
    [
        *(("ours", mode) for mode in PROTOCOLS),
        ("mock", "eager"),  # takes three seconds for a first rebalance and five for one more, whatever the assignor
        ("mock", "consumer"),
    ],
    indirect=True,
)
async def test_processed_records_are_committed_at_close(servers, name, mode):
    await topic(servers, name)
    await write(servers, name, range(10))
    async with quick_consumer(servers, name, group_id=name, **mode) as source:
        assert await take(source, 4) == [0, 1, 2, 3]
    async with quick_consumer(servers, name, group_id=name, **mode) as source:
        assert await take(source, 6) == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("by", ["async for", "getmany", "fetch"])
async def test_the_record_that_failed_is_delivered_again(ours, name, by):
    await topic(ours, name)
    await write(ours, name, range(10))
    with contextlib.suppress(ZeroDivisionError):
        async with quick_consumer(ours, name, group_id=name) as source:
            assert await take(source, 2) == [0, 1]
            if by == "async for":
                assert await take(source, 1) == [2]
            elif by == "getmany":
                ((first, second),) = (await source.getmany(max_records=2)).values()
                assert (first.offset, second.offset) == (2, 3)
            else:
                assert [record.offset for record in await source.fetch()] == list(range(2, 10))
            raise ZeroDivisionError
    async with quick_consumer(ours, name, group_id=name) as source:
        assert await take(source, 8) == list(range(2, 10))


async def test_auto_commit_excludes_the_record_that_is_being_processed(servers, name):
    await topic(servers, name)
    await write(servers, name, range(10))
    async with quick_consumer(servers, name, group_id=name, auto_commit_interval_ms=20) as source:
        assert await take(source, 4) == [0, 1, 2, 3]
        for _ in range(30):  # commits are due meanwhile
            assert (await committed(source, name) or 0) <= 3
            await asyncio.sleep(0.01)
        assert int((await anext(source)).value) == 4  # coming for it says that the one before is handled
        await eventually(lambda: committed(source, name), 4)
        assert await take(source, 5) == [5, 6, 7, 8, 9]
        waiting = asyncio.create_task(anext(source))
        await eventually(lambda: committed(source, name), 10)
        waiting.cancel()


async def test_no_auto_commit(servers, name):
    await topic(servers, name)
    await write(servers, name, range(5))
    async with quick_consumer(servers, name, group_id=name, enable_auto_commit=False) as source:
        assert await take(source, 5) == list(range(5))
        assert await committed(source, name) is None
        await source.commit()
        assert await committed(source, name) == 5


# -- groups ----------------------------------------------------------------------------------------------------------


class Notes(RebalanceListener):
    """What a listener hears, and when."""

    def __init__(self):
        self.heard = []

    async def on_partitions_assigned(self, partitions):
        self.heard.append(("assigned", [number for _, number in partitions]))

    def on_partitions_revoked(self, partitions):
        self.heard.append(("revoked", [number for _, number in partitions]))

    async def on_partitions_lost(self, partitions):
        self.heard.append(("lost", [number for _, number in partitions]))


@contextlib.asynccontextmanager
async def handling(source, into):
    """Somebody handles what comes."""

    async def handle():
        async for record in source:
            into.append((record.partition, record.offset))

    task = asyncio.create_task(handle())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_partitions_are_shared_and_taken_over(ours, name, mode):
    await topic(ours, name)
    first, second, notes = [], [], Notes()
    async with quick_consumer(ours, group_id=name, **mode) as one:
        await one.subscribe([name], listener=notes)
        async with handling(one, first):
            await until(lambda: len(one.assignment()) == 4, "alone")
            async with quick_consumer(ours, name, group_id=name, **mode) as other, handling(other, second):
                await until(lambda: (len(one.assignment()), len(other.assignment())) == (2, 2), "shared")
                for partition in range(4):
                    await write(ours, name, range(10), partition)
                await until(lambda: len(first) + len(second) == 40, "all are handled")
                assert not set(first) & set(second)
            await until(lambda: len(one.assignment()) == 4, "taken over")
            for partition in range(4):
                await write(ours, name, range(10), partition)
            await until(lambda: len(first) + len(second) == 80, "all are handled")
            assert len(set(first) | set(second)) == 80
    assert notes.heard[0] == ("assigned", [0, 1, 2, 3])
    assert notes.heard[-1] == ("revoked", [0, 1, 2, 3])
    owned = set()
    for what, partitions in notes.heard:
        owned = owned | set(partitions) if what == "assigned" else owned - set(partitions)
        assert what != "lost"
    assert owned == set()


async def test_a_partition_is_not_revoked_while_its_record_is_processed(ours, name, mode):
    await topic(ours, name)
    for partition in range(4):
        await write(ours, name, range(5), partition)
    got = []
    async with quick_consumer(ours, name, group_id=name, max_poll_records=1, **mode) as one:
        ((in_hand,),) = (await one.getmany()).values()
        async with quick_consumer(ours, name, group_id=name, **mode) as other, handling(other, got):
            generation = one.group_metadata().generation_id
            await until(lambda: one._rebalance_lock.wanted, "a rebalance waits for the application")
            assert got == []
            assert one.group_metadata().generation_id >= generation
            rest = []
            while not got:  # coming for more lets the rebalance go on
                for records in (await one.getmany(timeout_ms=50)).values():
                    rest += [(record.partition, record.offset) for record in records]
            async with handling(one, rest):
                await until(lambda: len(got) + len(rest) == 19, "all are handled")
            handled = [(in_hand.partition, in_hand.offset), *rest, *got]
            assert sorted(handled) == [(partition, offset) for partition in range(4) for offset in range(5)]


async def test_an_application_that_exceeds_max_poll_interval_loses_its_partitions(ours, name, mode):
    await topic(ours, name, 1)
    await write(ours, name, range(3))
    notes, got = Notes(), []
    async with quick_consumer(
        ours, group_id=name, max_poll_interval_ms=600, session_timeout_ms=6_000, enable_auto_commit=False, **mode
    ) as one:
        await one.subscribe([name], listener=notes)
        assert await take(one, 1) == [0]
        async with quick_consumer(ours, name, group_id=name, **mode) as other, handling(other, got):
            await until(lambda: len(got) == 3, "the other one has it")
            assert notes.heard == [("assigned", [0]), ("lost", [0])]
            assert one.assignment() == []
            await commits_are_refused(one, name)
        waiting = asyncio.create_task(anext(one))
        await until(lambda: one.assignment(), "it has come back and got it again")
        await write(ours, name, [7])
        assert int((await waiting).value) == 7


async def commits_are_refused(source, name):
    """Also where nothing is left of which the position could be committed."""
    for offsets in (None, {}, {TopicPartition(name, 0): 1}, {TopicPartition(name, 0): OffsetAndMetadata(1)}):
        with pytest.raises(CommitFailedError, match="has removed this member"):
            await source.commit(offsets)
    with pytest.raises(CommitFailedError, match="has removed this member"):
        source.group_metadata()


@pytest.mark.parametrize("instance_id", [None, "i"])
async def test_a_stuck_application_commits_nothing_even_as_the_only_member(ours, name, mode, instance_id):
    await topic(ours, name, 1)
    await write(ours, name, range(3))
    notes = Notes()
    mode = mode | {"group_instance_id": instance_id}
    async with quick_consumer(ours, group_id=name, max_poll_interval_ms=600, enable_auto_commit=False, **mode) as one:
        await one.subscribe([name], listener=notes)
        assert await take(one, 1) == [0]
        await until(lambda: ("lost", [0]) in notes.heard, "it is taken for stuck")
        for _ in range(2):
            await commits_are_refused(one, name)
        assert await committed(one, name) is None
        assert await take(one, 2) == [0, 1]  # it comes back
        await one.commit()
        assert await committed(one, name) == 2


async def remove_member(servers, source, mode):
    """Have the group give up a member that knows nothing of it, as if its session had timed out."""
    who = source.group_metadata()
    async with wire_client(servers) as client:
        if "group_protocol" in mode:
            left = ConsumerGroupHeartbeatRequest(group_id=who.group_id, member_id=who.member_id, member_epoch=-1)
        else:
            left = LeaveGroupRequest(group_id=who.group_id, members=[MemberIdentity(member_id=who.member_id)])
        assert (await client.call(left)).error_code == 0


async def test_a_removed_member_does_not_commit_the_record_that_it_processes(ours, name, mode):
    """It joins again by itself, but what it has in hand comes again, perhaps to another member."""
    await topic(ours, name, 1)
    await write(ours, name, range(3))
    notes = Notes()
    async with quick_consumer(ours, group_id=name, enable_auto_commit=False, **mode) as one:
        await one.subscribe([name], listener=notes)
        assert await take(one, 1) == [0]
        await remove_member(ours, one, mode)
        await until(lambda: ("lost", [0]) in notes.heard, "it has learnt that")
        await commits_are_refused(one, name)
        member = one._group._member
        await until(lambda: member.metadata.generation_id > 0, "it has joined again")
        await commits_are_refused(one, name)
        assert await committed(one, name) is None
        assert await take(one, 2) == [0, 1]
        await one.commit({TopicPartition(name, 0): 1})
        assert await committed(one, name) == 1


async def test_an_idle_member_that_was_removed_commits_the_next_records(ours, name, mode):
    await topic(ours, name, 1)
    notes = Notes()
    async with quick_consumer(ours, group_id=name, enable_auto_commit=False, **mode) as one:
        await one.subscribe([name], listener=notes)
        waiting = asyncio.create_task(anext(one))
        await until(lambda: notes.heard == [("assigned", [0])], "it has its partition")
        await remove_member(ours, one, mode)
        await until(lambda: notes.heard[1:] == [("lost", [0]), ("assigned", [0])], "it has lost it and got it again")
        await one.commit()
        await write(ours, name, [7])
        assert int((await waiting).value) == 7
        await one.commit()
        assert await committed(one, name) == 1


async def test_an_application_that_keeps_processing_is_not_stuck(ours, name, mode):
    await topic(ours, name, 6)
    async with Producer(bootstrap_servers=ours) as producer:
        for number in range(6):
            await producer.send(name, b"v", partition=number)
    notes, loop = Notes(), asyncio.get_running_loop()
    async with quick_consumer(ours, group_id=name, max_poll_interval_ms=2_000, enable_auto_commit=False, **mode) as one:
        await one.subscribe([name], listener=notes)
        for _ in range(6):  # longer than max_poll_interval_ms altogether
            await one.fetch_batches()
            over = loop.time() + 0.4
            await until(lambda over=over: loop.time() > over, "handled, in much less than max_poll_interval_ms")
        assert notes.heard == [("assigned", list(range(6)))]


async def test_a_table_that_is_being_processed_is_not_committed(ours, name, mode):
    pytest.importorskip("pyarrow")
    await topic(ours, name, 3)
    for partition in range(3):
        await write(ours, name, range(4), partition)
    places, in_hand = ["partition", "offset"], set()

    async def fails_at_last():
        rows = 0
        async with quick_consumer(ours, name, group_id=name, **mode) as one:
            while rows < 12:
                table = await one.fetch_table(places)
                rows += table.num_rows
            in_hand.update((row["partition"], row["offset"]) for row in table.to_pylist())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fails_at_last()
    async with quick_consumer(ours, name, group_id=name, **mode) as successor:
        again = set()
        while len(again) < len(in_hand):
            again |= {(row["partition"], row["offset"]) for row in (await successor.fetch_table(places)).to_pylist()}
    assert again == in_hand


async def test_a_static_member_returns_without_a_rebalance(ours, name):
    await topic(ours, name, 2)
    options = {"group_id": name, "partition_assignment_strategy": "range"}
    notes, got = Notes(), []
    async with quick_consumer(ours, **options) as other:
        await other.subscribe([name], listener=notes)
        async with handling(other, got):
            async with quick_consumer(ours, name, group_instance_id="i", **options) as one, handling(one, []):
                await until(lambda: len(one.assignment()) == len(other.assignment()) == 1, "shared")
                mine, generation = one.assignment(), other.group_metadata().generation_id
                heard = list(notes.heard)
            async with quick_consumer(ours, name, group_instance_id="i", **options) as one, handling(one, []):
                await until(lambda: one.assignment() == mine, "it has it again")
                assert other.group_metadata().generation_id == generation
            assert notes.heard == heard


async def test_topics_that_match(ours, name, mode):
    await topic(ours, f"{name}.a")
    await topic(ours, f"x{name}.b")
    await write(ours, f"{name}.a", [1])
    await write(ours, f"x{name}.b", [2])
    async with quick_consumer(ours, group_id=name, **mode) as source:
        await source.subscribe(pattern=rf"{name}\..*")
        assert await take(source, 1) == [1]
        await topic(ours, f"{name}.c")
        await write(ours, f"{name}.c", [3])
        assert await take(source, 1) == [3]
        assert source.subscription() == [f"{name}.a", f"{name}.c"]
        await source.subscribe([f"x{name}.b"])
        assert await take(source, 1) == [2]


async def test_a_topic_grows(ours, name, mode):
    await topic(ours, name, 1)
    async with quick_consumer(ours, name, group_id=name, **mode) as source, Admin(bootstrap_servers=ours) as admin:
        got = []
        async with handling(source, got):
            await until(lambda: len(source.assignment()) == 1, "joined")
            await admin.create_partitions(name, 3)
            await until(lambda: len(source.assignment()) == 3, "grown")
            await write(ours, name, [1, 2], 2)
            await until(lambda: got == [(2, 0), (2, 1)], "read")


async def test_a_listener_that_seeks_and_one_that_fails(ours, name, mode):
    await topic(ours, name)
    await write(ours, name, range(10))

    class Seeks(RebalanceListener):
        def on_partitions_assigned(self, partitions):
            for partition in partitions:
                source.seek(partition, 8)

        def on_partitions_revoked(self, partitions):
            raise ZeroDivisionError

    async with quick_consumer(ours, group_id=name, **mode) as source:
        await source.subscribe([name], listener=Seeks())
        assert await take(source, 2) == [8, 9]
        await source.unsubscribe()
        with pytest.raises(ZeroDivisionError):
            await anext(source)


async def test_heartbeats_go_on_while_a_member_that_leaves_gives_up_its_partitions(tmp_path, name, mode):
    """Else the session may end, and with it the right to commit, while the application does its last work."""
    config = BrokerConfig.load(None, settings(tmp_path / "data") | SETTINGS)

    class Works(RebalanceListener):
        async def on_partitions_revoked(self, partitions):
            before = heartbeats()
            await until(lambda: heartbeats() >= before + 3, "heartbeats")
            await source.commit()

    async with Broker(config) as broker:
        api = "ConsumerGroupHeartbeat" if "group_protocol" in mode else "Heartbeat"

        def heartbeats():
            return broker.metrics.api(api).requests

        await topic(broker.bootstrap_servers, name)
        await write(broker.bootstrap_servers, name, range(3))
        async with quick_consumer(broker.bootstrap_servers, group_id=name, enable_auto_commit=False, **mode) as source:
            await source.subscribe([name], listener=Works())
            assert await take(source, 3) == [0, 1, 2]
            await source.unsubscribe()
            assert await committed(source, name) == 3


async def test_the_coordinator_is_lost_permanently(tmp_path, name):
    with broker_process(tmp_path / "data", **SETTINGS) as broker:
        await topic(broker.bootstrap, name)
        await write(broker.bootstrap, name, range(3))
        source = quick_consumer(broker.bootstrap, name, group_id=name)
        await source.start()
        assert await take(source, 3) == [0, 1, 2]
        broker.kill()
        await source.close(timeout_s=0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"group_protocol": "new"}, "group_protocol='new': must be one of classic, consumer"),
        ({"heartbeat_interval_ms": 9_000}, "heartbeat_interval_ms=9000: must be from 1 to 5999"),
        ({"group_id": ""}, "group_id='': must not be empty"),
        ({"partition_assignment_strategy": "best"}, "partition_assignment_strategy='best': must be an assignor or one"),
        ({"max_poll_records": 0}, "max_poll_records=0: must be at least 1"),
        ({"group": "g"}, "Consumer has no option group: did you mean group_id"),
        ({"auto_offset_reset": "smallest"}, "auto_offset_reset='smallest': must be one of"),
    ],
)
async def test_options_are_refused_by_name(options, message):
    with pytest.raises(InvalidOptionError, match=message):
        quick_consumer("localhost", "t", **options)


async def test_subscriptions_are_refused(servers):
    async with quick_consumer(servers) as source:
        for topics, pattern in (((), None), (["t"], "t"), ([""], None), ((), "(")):
            with pytest.raises(InvalidOptionError):
                await source.subscribe(topics, pattern=pattern)
    with pytest.raises(InvalidOptionError, match="topics='': must be the name of a topic"):
        quick_consumer("localhost", "")


# -- a group that refuses ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group_protocol", "key", "answer"),
    [
        ("classic", ApiKey.JOIN_GROUP, JoinGroupResponse),
        ("consumer", ApiKey.CONSUMER_GROUP_HEARTBEAT, ConsumerGroupHeartbeatResponse),
    ],
)
async def test_joining_is_retried_until_a_fatal_error(group_protocol, key, answer):
    def refusing(code):
        return lambda request, version: answer(error_code=code)

    passing = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
    async with RefusingGroup({"t": 1}) as fake:
        fake.script[key] = [*map(refusing, passing), CLOSE, refusing(ErrorCode.GROUP_AUTHORIZATION_FAILED)]
        async with quick_consumer(fake.address, "t", group_id="g", group_protocol=group_protocol) as consumer:
            with pytest.raises(KafkaError) as refused:
                await consumer.getmany(timeout_ms=DEADLINE_MS)
            assert refused.value.code == ErrorCode.GROUP_AUTHORIZATION_FAILED
            with pytest.raises(CommitFailedError):
                await consumer.commit({TopicPartition("t", 0): 1})
        assert fake.script[key] == []
