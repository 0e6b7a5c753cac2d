"""Members of the classic protocol in a consumer group, and groups that change their type."""

import pytest

from broker.coordinator.classic.group import Group, GroupState
from broker.coordinator.classic.member import Member
from broker.coordinator.consumer.group import ConsumerGroupState
from broker.coordinator.consumer.member import ClassicMember, MemberState
from broker.coordinator.consumer.migration import downgraded, upgraded
from broker.coordinator.group_records import group_key, read_group
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_protocol import (
    AssignedTopicPartition,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from protocol.messages.leave_group import MemberIdentity
from protocol.versioned import decode_versioned, encode_versioned
from support.consumer_table import REBALANCE_MS, ConsumerTable, image, shares, topic_id

CLASSIC_SESSION_MS = 10_000


def metadata(*topics, owned=None, version=1):
    partitions = [TopicPartition(topic=name, partitions=some) for name, some in (owned or {}).items()]
    return encode_versioned(ConsumerProtocolSubscription(topics=list(topics), owned_partitions=partitions), version)


def assigned(data):
    read, _ = decode_versioned(ConsumerProtocolAssignment, data)
    return {one.topic: one.partitions for one in read.assigned_partitions}


def assignment(**partitions):
    topics = [AssignedTopicPartition(topic=name, partitions=some) for name, some in partitions.items()]
    return encode_versioned(ConsumerProtocolAssignment(assigned_partitions=topics), 1)


@pytest.fixture
def table():
    return ConsumerTable({"t": 4})


def test_a_classic_member_joins_syncs_and_is_told_to_rejoin(table):
    table.beat("new", 0, topics=["t"])
    joined = table.join_classic("", metadata("t"))
    member_id = joined.member_id
    assert (joined.error_code, joined.generation_id, joined.leader, joined.members) == (0, 2, "", [])
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    synced = table.sync_classic(member_id, 2)
    assert (synced.error_code, assigned(synced.assignment)) == (0, {})
    assert table.beat_classic(member_id, 2) == 0  # nothing is free for it yet
    assert shares(table.beat("new", 1)) == {"t": [0, 1]}
    assert table.beat_classic(member_id, 2) == 0
    table.beat("new", 1, owned={"t": [0, 1]})
    assert table.beat_classic(member_id, 2) == ErrorCode.REBALANCE_IN_PROGRESS  # there is something to get now
    again = table.join_classic(member_id, metadata("t", owned={}))
    assert again.generation_id == 2
    assert assigned(table.sync_classic(member_id, 2).assignment) == {"t": [2, 3]}
    assert table.group.state is ConsumerGroupState.STABLE


def test_a_classic_member_revokes_partitions_by_rejoining(table):
    joined = table.join_classic("", metadata("t"))
    member_id = joined.member_id
    assert assigned(table.sync_classic(member_id, 1).assignment) == {"t": [0, 1, 2, 3]}
    table.beat("new", 0, topics=["t"])
    assert table.sync_classic(member_id, 1).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert table.beat_classic(member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    told = table.join_classic(member_id, metadata("t", owned={"t": [0, 1, 2, 3]}))
    assert told.generation_id == 1
    assert assigned(table.sync_classic(member_id, 1).assignment) == {"t": [0, 1]}
    assert table.group.members[member_id].state is MemberState.UNREVOKED_PARTITIONS
    assert shares(table.beat("new", 2)) is None
    assert table.beat_classic(member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert table.join_classic(member_id, metadata("t", owned={"t": [0, 1]})).generation_id == 2
    assert shares(table.beat("new", 2)) == {"t": [2, 3]}


def test_invalid_requests_of_classic_members_are_refused(table):
    joined = table.join_classic("", metadata("t"))
    member_id = joined.member_id
    assert table.join_classic("", metadata("t"), protocol_type="connect").error_code == (
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    )
    other = (("sticky", metadata("t")),)
    assert table.join_classic("", metadata("t"), protocols=other).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert table.join_classic("", b"\0").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    required = table.join_classic("", metadata("t"), requires_member_id=True)
    assert required.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert required.member_id
    assert table.beat_classic(member_id, 7) == ErrorCode.ILLEGAL_GENERATION
    assert table.beat_classic("nobody", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert table.sync_classic(member_id, 1, protocol_name="x").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert table.sync_classic(member_id, 1, protocol_type="x").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert table.sync_classic(member_id, 1, protocol_type=None, protocol_name=None).error_code == 0
    table.beat("new", 0, topics=["t"])
    assert table.beat_classic("new", 2) == ErrorCode.UNKNOWN_MEMBER_ID  # it does not speak that


@pytest.mark.parametrize("how", ["session", "join", "sync"])
def test_a_classic_member_that_misses_its_timeout_is_removed(table, how):
    table.beat("new", 0, topics=["t"])
    member_id = table.join_classic("", metadata("t")).member_id
    if how != "sync":
        table.sync_classic(member_id, 2)
    if how == "join":
        table.beat("newer", 0, topics=["t"])
    step_ms = CLASSIC_SESSION_MS - 1 if how != "session" else CLASSIC_SESSION_MS
    for _ in range(REBALANCE_MS // step_ms + 1):
        assert member_id in table.group.members
        table.beat("new", table.group.members["new"].epoch)
        if how != "session":
            table.beat_classic(member_id, 2)
        table.advance(step_ms)
        if how == "session":
            break
    assert member_id not in table.group.members


def test_classic_members_rebalance_when_topics_change(table):
    member_id = table.join_classic("", metadata("t")).member_id
    table.sync_classic(member_id, 1)
    table.image = image({"t": 4, "other": 1})
    assert table.beat_classic(member_id, 1) == 0
    table.image = image({"t": 5})
    assert table.beat_classic(member_id, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    table.join_classic(member_id, metadata("t"))
    assert assigned(table.sync_classic(member_id, 2).assignment) == {"t": [0, 1, 2, 3, 4]}


def test_classic_members_leave(table):
    table.beat("new", 0, topics=["t"])
    one = table.join_classic("", metadata("t")).member_id
    table.join_classic("", metadata("t"), group_instance_id="i")
    identities = [
        MemberIdentity(member_id=one),
        MemberIdentity(member_id="", group_instance_id="i"),
        MemberIdentity(member_id="new"),
        MemberIdentity(member_id="", group_instance_id="j"),
    ]
    answer = table.carry_out(table.classic.leave(table.group, identities))
    unknown = ErrorCode.UNKNOWN_MEMBER_ID
    assert [one.error_code for one in answer.members] == [0, 0, unknown, unknown]
    assert set(table.group.members) == {"new"}


def test_a_static_member_changes_its_protocol(table):
    table.beat("a", 0, topics=["t"], instance_id="i")
    joined = table.join_classic("", metadata("t"), group_instance_id="i")
    assert (joined.error_code, joined.generation_id) == (0, 1)
    assert assigned(table.sync_classic(joined.member_id, 1, group_instance_id="i").assignment) == {"t": [0, 1, 2, 3]}
    back = table.beat("c", 0, topics=["t"], instance_id="i")
    assert (back.error_code, shares(back)) == (0, {"t": [0, 1, 2, 3]})
    assert table.group.members["c"].classic is None


def test_a_conversion_of_the_group_that_is_not_written_is_refused(table):
    table.beat("a", 0, topics=["t"], instance_id="i")
    classic = table.join_classic("", metadata("t")).member_id
    table.downgrades = table.refuses = True
    joined = table.join_classic("", metadata("t"), group_instance_id="i")
    assert joined.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert table.beat("a", -1, instance_id="i").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert table.group.members.keys() == {"a", classic}


@pytest.mark.parametrize("replaced", [False, True])
def test_a_group_is_converted_by_one_batch(table, replaced):
    table.beat("a", 0, topics=["t"], instance_id="i")
    table.join_classic("", metadata("t"))
    table.downgrades, batches = True, table.batches
    if replaced:
        assert table.join_classic("", metadata("t"), group_instance_id="i").error_code == 0
    else:
        assert table.beat("a", -1, instance_id="i").error_code == 0
    assert table.batches == batches + 1
    key, value = table.log[-1]
    assert key == group_key("g")
    converted = read_group("g", value, table.now_ms())
    assert len(converted.members) == 1 + replaced
    assert (converted.state, table.group.is_dead, table.live_timers) == (GroupState.STABLE, True, 0)
    table.log = [(key, value) for key, value in table.log if key != group_key("g")]
    assert not table.replayed().members


# -- migration --------------------------------------------------------------------------------------------------------


def classic_group(*members, protocol="range"):
    group = Group("g", 0)
    for member_id, data in members:
        protocols = ((protocol, metadata("t")),)
        group.add(
            Member(
                member_id,
                group_instance_id=None,
                client_id="c",
                client_host="/h",
                rebalance_timeout_ms=REBALANCE_MS,
                session_timeout_ms=CLASSIC_SESSION_MS,
                protocols=protocols,
                assignment=data,
            ),
            "consumer",
        )
    group.generation, group.protocol_name, group.state = 7, protocol, GroupState.STABLE
    return group


def test_an_upgraded_group_keeps_the_state_of_the_classic_group(table):
    classic = classic_group(("x", assignment(t=[0, 1], gone=[0])), ("y", assignment(t=[2, 3])), ("z", b""))
    group = upgraded(classic, table.image)
    assert (group.epoch, group.assignment_epoch, group.state) == (7, 7, ConsumerGroupState.STABLE)
    assert group.offsets is classic.offsets
    assert {one.member_id: dict(one.assigned) for one in group.members.values()} == {
        "x": {topic_id("t"): frozenset({0, 1})},
        "y": {topic_id("t"): frozenset({2, 3})},
        "z": {},
    }
    assert group.members["x"].classic == ClassicMember(CLASSIC_SESSION_MS, (("range", metadata("t")),))
    table.group = group
    table.log = [record.encoded() for record in group.records()]
    answer = table.beat("new", 0, topics=["t"])
    assert (answer.member_epoch, shares(answer)) == (8, {})
    assert table.beat_classic("x", 7) == ErrorCode.REBALANCE_IN_PROGRESS
    assert table.replayed().members == group.members


def test_an_upgraded_member_keeps_its_subscription_of_the_selected_protocol(table):
    classic = classic_group(("x", assignment(t=[0])))
    classic.members["x"].protocols = (("sticky", metadata("other")), ("range", metadata("t")))
    assert upgraded(classic, table.image).members["x"].topics == ("t",)
    classic.protocol_name = None
    assert upgraded(classic, table.image).members["x"].topics == ("other",)


def test_a_downgraded_group_keeps_its_assignments(table):
    table.beat("new", 0, topics=["t"])
    member_id = table.join_classic("", metadata("t")).member_id
    classic = downgraded(table.group, table.group.members["new"], None, table.image, 5)
    assert (classic.state, classic.generation, classic.protocol_type) == (GroupState.STABLE, 2, "consumer")
    assert (classic.protocol_name, classic.leader_id) == ("range", member_id)
    assert classic.subscribed_topics == {"t"}
    assert classic.offsets is table.group.offsets
    (member,) = classic.members.values()
    assert assigned(member.assignment) == {"t": [2, 3]}
    assert member.session_timeout_ms == CLASSIC_SESSION_MS


def test_a_replacing_static_member_gets_the_assignment(table):
    table.beat("a", 0, topics=["t"], instance_id="i")
    old = table.group.members["a"]
    new = old._replace(member_id="c", classic=ClassicMember(CLASSIC_SESSION_MS, (("range", metadata("t")),)))
    classic = downgraded(table.group, old, new, table.image, 5)
    assert list(classic.members) == ["c"]
    assert classic.static_members == {"i": "c"}
    assert assigned(classic.members["c"].assignment) == {"t": [0, 1, 2, 3]}
