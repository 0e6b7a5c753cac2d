"""The settings of groups and of their offsets, seen in a live broker."""

import asyncio
import time

import pytest

from broker.settings.config import BrokerConfig
from protocol.compression import CompressionType
from protocol.error_codes import ErrorCode
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.record_batch import iter_batches
from storage.setting import ConfigError
from support.consumer_member import ConsumerMember, describe
from support.effects import shows
from support.groups import GroupMember, commit, fetch_offsets, find_group
from support.live import live
from support.polling import until

POLICIES = [
    ("bidirectional", True, True),
    ("upgrade", True, False),
    ("DOWNGRADE", False, True),
    ("disabled", False, False),
]
GROUP_TOPIC = "__consumer_offsets"


def group_log(broker, group_id):
    coordination = broker.broker.services.coordination
    return broker.log(GROUP_TOPIC, coordination.group_log.partition_for(group_id))


@shows("group.min.session.timeout.ms", "group.max.session.timeout.ms")
async def test_the_bounds_of_session_timeouts(tmp_path):
    bounds = {"group.min.session.timeout.ms": "100", "group.max.session.timeout.ms": "200"}
    async with live(tmp_path / "data", bounds) as broker:
        await find_group(broker.ask, "g")
        codes = {}
        for timeout_ms in (99, 100, 200, 201):
            member = GroupMember(broker.ask, "g")
            member.session_timeout_ms = timeout_ms
            codes[timeout_ms] = (await member.join_once()).error_code
        refused, accepted = ErrorCode.INVALID_SESSION_TIMEOUT, ErrorCode.MEMBER_ID_REQUIRED
        assert codes == {99: refused, 100: accepted, 200: accepted, 201: refused}


@shows("group.max.size")
async def test_the_size_of_a_group(tmp_path):
    async with live(tmp_path / "data", {"group.max.size": "1"}) as broker:
        await find_group(broker.ask, "g")
        await GroupMember(broker.ask, "g").settle()
        second = GroupMember(broker.ask, "g")
        assert (await second.join_once(3)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED


@shows("group.initial.rebalance.delay.ms")
async def test_a_new_group_waits_for_more_members(tmp_path):
    async with live(tmp_path / "data", {"group.initial.rebalance.delay.ms": "500"}) as broker:
        await find_group(broker.ask, "g")
        async with await broker.another() as connection:
            await connection.negotiate()
            joined = await asyncio.gather(
                GroupMember(broker.ask, "g").join(3), GroupMember(connection.request, "g").join(3)
            )
        assert [one.generation_id for one in joined] == [1, 1]
        assert sorted(len(one.members) for one in joined) == [0, 2]


CONSUMER_TIMES = {
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "77",
}


@shows("group.consumer.session.timeout.ms", "group.consumer.heartbeat.interval.ms", "group.consumer.max.size")
async def test_members_of_the_newer_protocol(tmp_path):
    async with live(tmp_path / "data", {"group.consumer.max.size": "1"}) as broker:
        await broker.create("t")
        await find_group(broker.ask, "g")
        await ConsumerMember(broker.ask, "g", "one", "t").join()
        two = ConsumerMember(broker.ask, "g", "two", "t")
        assert (await two.beat()).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    async with live(tmp_path / "more data", CONSUMER_TIMES) as broker:
        await broker.create("t")
        await find_group(broker.ask, "g")
        one = ConsumerMember(broker.ask, "g", "one", "t")
        assert (await one.join()).heartbeat_interval_ms == 77

        async def is_empty():
            return (await describe(broker.ask, "g")).group_state == "Empty"

        await until(is_empty, "nothing is heard of it any longer")


@shows("group.consumer.assignors")
async def test_the_configured_assignors(tmp_path):
    async with live(tmp_path / "data", {"group.consumer.assignors": "range"}) as broker:
        await broker.create("t")
        await find_group(broker.ask, "g")
        member = ConsumerMember(broker.ask, "g", "one", "t")
        member.assignor = "uniform"
        refused = await member.beat()
        assert refused.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
        assert refused.error_message.endswith("Supported assignors: range.")
        member.assignor = None
        await member.join()
        assert (await describe(broker.ask, "g")).assignor_name == "range"


@shows("group.coordinator.rebalance.protocols")
async def test_the_newer_protocol_can_be_disabled(tmp_path):
    async with live(tmp_path / "data", {"group.coordinator.rebalance.protocols": "classic"}) as broker:
        await broker.create("t")
        await find_group(broker.ask, "g")
        member = ConsumerMember(broker.ask, "g", "one", "t")
        assert (await member.beat()).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert (await describe(broker.ask, "g")).error_code == ErrorCode.UNSUPPORTED_VERSION
    for protocols, rule in (("consumer", "must contain classic"), ("classic,share", "share is not supported")):
        with pytest.raises(ConfigError, match=rule):
            BrokerConfig({"group.coordinator.rebalance.protocols": protocols}, has_file=False)


@shows("group.consumer.migration.policy")
@pytest.mark.parametrize(("policy", "upgrades", "downgrades"), POLICIES)
async def test_the_migration_policy_of_groups(tmp_path, policy, upgrades, downgrades):
    async with live(tmp_path / "data", {"group.consumer.migration.policy": policy}) as broker:
        await broker.create("t")
        await find_group(broker.ask, "g")
        old = GroupMember(broker.ask, "g", topics=("t",))
        await old.join()
        await old.sync({})
        new = ConsumerMember(broker.ask, "g", "new", "t")
        assert (await new.beat()).error_code == (0 if upgrades else ErrorCode.GROUP_ID_NOT_FOUND)
        await find_group(broker.ask, "h")
        new = ConsumerMember(broker.ask, "h", "new", "t")
        await new.join()
        await GroupMember(broker.ask, "h", topics=("t",)).join()
        await new.leave()
        assert (await describe(broker.ask, "h")).error_code == (ErrorCode.GROUP_ID_NOT_FOUND if downgrades else 0)


@shows(
    "group.consumer.min.session.timeout.ms",
    "group.consumer.max.session.timeout.ms",
    "group.consumer.min.heartbeat.interval.ms",
    "group.consumer.max.heartbeat.interval.ms",
)
def test_the_bounds_of_the_newer_protocol():
    for name in ("group.consumer.session.timeout.ms", "group.consumer.heartbeat.interval.ms"):
        low, high = (name.replace("consumer.", f"consumer.{bound}.") for bound in ("min", "max"))
        BrokerConfig({low: "10", name: "10", high: "10"}, has_file=False)
        for value in ("9", "11"):
            with pytest.raises(ConfigError):
                BrokerConfig({low: "10", name: value, high: "10"}, has_file=False)


@shows("offset.metadata.max.bytes")
async def test_the_size_of_metadata(tmp_path):
    async with live(tmp_path / "data", {"offset.metadata.max.bytes": "3"}) as broker:
        await find_group(broker.ask, "g")
        await broker.create("t")
        assert await commit(broker.ask, "g", "t", 1, metadata="abc") == 0
        assert await commit(broker.ask, "g", "t", 1, metadata="abcd") == ErrorCode.OFFSET_METADATA_TOO_LARGE


def hold(broker, group_id):
    """A replica that never fetches is in sync."""
    log = broker.broker.services.coordination.group_log
    partition = broker.broker.services.replicas.partitions[(log.topic, log.partition_for(group_id))]
    partition.sync.isr = (*partition.sync.isr, 99)
    partition.sync.end_offsets[99] = partition.log.log_end_offset


@shows("offsets.commit.timeout.ms")
async def test_a_commit_waits_for_replicas_until_its_timeout(tmp_path):
    async with live(tmp_path / "data", {"offsets.commit.timeout.ms": "50"}) as broker:
        await find_group(broker.ask, "g")
        await broker.create("t")
        hold(broker, "g")
        assert await commit(broker.ask, "g", "t", 1) == ErrorCode.REQUEST_TIMED_OUT


@shows("offsets.commit.required.acks")
async def test_a_commit_waits_for_the_required_acks(tmp_path):
    async with live(tmp_path / "data", {"offsets.commit.required.acks": "1"}) as broker:
        await find_group(broker.ask, "g")
        await broker.create("t")
        hold(broker, "g")
        assert await commit(broker.ask, "g", "t", 1) == 0


@shows("offsets.retention.minutes", "offsets.retention.check.interval.ms")
async def test_offsets_are_kept_for_their_retention(tmp_path):
    often = {"offsets.retention.minutes": "1", "offsets.retention.check.interval.ms": "20"}
    async with live(tmp_path / "data", often) as broker:
        await find_group(broker.ask, "g")
        await broker.create("t")
        assert await commit(broker.ask, "g", "t", 1) == 0
        broker.clock.now_ms += 59_999
        end = group_log(broker, "g").log_end_offset
        started = time.monotonic()
        while time.monotonic() < started + 0.1:  # some looks at it
            assert (await fetch_offsets(broker.ask, "g", "t", 0))[1][0][0] == 1
        broker.clock.now_ms += 1
        await until(lambda: group_log(broker, "g").log_end_offset > end, "a tombstone is written")
        assert (await fetch_offsets(broker.ask, "g", "t", 0))[1][0][0] == -1


@shows("offsets.topic.compression.codec")
async def test_the_codec_of_the_offsets_topic(tmp_path):
    async with live(tmp_path / "data", {"offsets.topic.compression.codec": "3"}) as broker:
        await find_group(broker.ask, "g")
        await broker.create("t")
        assert await commit(broker.ask, "g", "t", 1) == 0
        await GroupMember(broker.ask, "g").settle()
        log = group_log(broker, "g")
        records = log.read(0, 1 << 20, max_offset=log.log_end_offset).records.to_bytes()
        assert {batch.compression for batch in iter_batches(records)} == {CompressionType.LZ4}


@shows("offsets.topic.num.partitions", "offsets.topic.segment.bytes")
async def test_the_form_of_the_offsets_topic(tmp_path):
    form = {"offsets.topic.num.partitions": "7", "offsets.topic.segment.bytes": "2000"}
    async with live(tmp_path / "data", form) as broker:
        await find_group(broker.ask, "g")
        assert len((await broker.metadata(GROUP_TOPIC)).topics[0].partitions) == 7
        resource = DescribeConfigsResource(resource_type=2, resource_name=GROUP_TOPIC, configuration_keys=None)
        answer = await broker.ask(DescribeConfigsRequest(resources=[resource]))
        configs = {one.name: one.value for one in answer.results[0].configs}
        assert (configs["segment.bytes"], configs["cleanup.policy"]) == ("2000", "compact")


@shows("offsets.topic.replication.factor")
async def test_the_offsets_topic_is_not_created_with_too_few_brokers(tmp_path):
    async with live(tmp_path / "data", {"offsets.topic.replication.factor": "2"}) as broker:
        found = await broker.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 4)
        assert found.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert GROUP_TOPIC not in broker.broker.metadata.snapshot.topics


@shows("offsets.load.buffer.size")
async def test_offsets_are_loaded_in_pieces_of_the_buffer_size(tmp_path):
    settings = {"offsets.load.buffer.size": "1000"}
    async with live(tmp_path / "data", settings, restarts=True) as broker:
        await find_group(broker.ask, "g")
        await broker.create("t", 20)
        for number in range(60):
            assert await commit(broker.ask, "g", "t", number, number % 20) == 0
        size = group_log(broker, "g").size_bytes
    before = []
    async with live(tmp_path / "data", settings, restarts=True) as broker:
        original = broker.fs.pread
        broker.fs.pread = lambda fd, length, position: before.append(length) or original(fd, length, position)
        coordination = broker.broker.services.coordination
        await find_group(broker.ask, "g")
        partition = broker.broker.services.replicas.partitions[(GROUP_TOPIC, coordination.group_log.partition_for("g"))]
        sync, partition.sync = partition.sync, None
        broker.broker.services.replicas.role_changed((GROUP_TOPIC, partition.partition))
        before.clear()
        partition.sync = sync
        broker.broker.services.replicas.role_changed((GROUP_TOPIC, partition.partition))
        await find_group(broker.ask, "g")
        found = (await fetch_offsets(broker.ask, "g", "t", *range(20)))[1]
        assert [found[number][0] for number in range(20)] == list(range(40, 60))
        reads = [length for length in before if 0 < length <= 1000]
        assert len(reads) >= size // 1000
