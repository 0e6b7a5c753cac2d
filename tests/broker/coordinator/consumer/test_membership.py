"""A consumer group step by step: what a heartbeat is answered, what the log gets, who is thrown out and when."""

import pytest

from broker.coordinator.consumer.group import ConsumerGroupState
from broker.coordinator.consumer.member import MemberState
from broker.coordinator.consumer.topics import MAX_PATTERN_CHARACTERS
from protocol.error_codes import ErrorCode
from support.consumer_table import REBALANCE_MS, SESSION_MS, ConsumerTable, image, shares

ALL = {"t": [0, 1, 2, 3]}


@pytest.fixture
def table():
    made = ConsumerTable({"t": 4})
    yield made
    assert_replayable(made)


def assert_replayable(table):
    """A reader of the log, compacted or not, has the group as it is."""
    group, read = table.group, table.replayed()
    for name in ("epoch", "assignment_epoch", "members", "targets", "topics", "regexes", "owners", "static_members"):
        assert getattr(read, name) == getattr(group, name), name


def settled_pair(table):
    """Two members with two partitions each."""
    table.beat("a", 0, topics=["t"])
    table.beat("b", 0, topics=["t"])
    first = table.beat("a", 1)
    assert shares(first) == {"t": [0, 1]}
    done = table.beat("a", 1, owned=shares(first))
    assert done.member_epoch == 2
    assert shares(table.beat("b", 2)) == {"t": [2, 3]}
    assert table.group.state is ConsumerGroupState.STABLE


def test_the_first_member_gets_all_partitions(table):
    assert table.group.state is ConsumerGroupState.EMPTY
    answer = table.beat("a", 0, topics=["t"])
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", 1)
    assert answer.heartbeat_interval_ms == 5_000
    assert shares(answer) == ALL
    assert table.group.state is ConsumerGroupState.STABLE
    assert table.batches == 1  # one step is one batch


def test_a_heartbeat_without_changes_writes_nothing(table):
    table.beat("a", 0, topics=["t"])
    written = len(table.log)
    assert shares(table.beat("a", 1)) is None
    full = table.beat("a", 1, topics=["t"], owned=ALL, rebalance_timeout_ms=REBALANCE_MS)
    assert shares(full) == ALL  # a full request is answered in full
    assert len(table.log) == written


def test_a_partition_is_revoked_before_it_is_assigned_to_another_member(table):
    table.beat("a", 0, topics=["t"])
    second = table.beat("b", 0, topics=["t"])
    assert (second.member_epoch, shares(second)) == (2, {})
    assert table.group.members["b"].state is MemberState.UNRELEASED_PARTITIONS
    told = table.beat("a", 1)
    assert (told.member_epoch, shares(told)) == (1, {"t": [0, 1]})  # it stays in its epoch until it has given up
    assert table.group.members["a"].state is MemberState.UNREVOKED_PARTITIONS
    assert shares(table.beat("b", 2)) is None
    assert table.group.state is ConsumerGroupState.RECONCILING
    assert table.beat("a", 1, owned=ALL).member_epoch == 1  # it still owns them
    assert table.beat("a", 1, owned={"t": [0, 1]}).member_epoch == 2
    assert shares(table.beat("b", 2)) == {"t": [2, 3]}
    assert table.group.state is ConsumerGroupState.STABLE


def test_a_member_that_does_not_revoke_in_time_is_removed(table):
    table.beat("a", 0, topics=["t"])
    table.beat("b", 0, topics=["t"])
    table.beat("a", 1)
    for _ in range(REBALANCE_MS // 10_000 - 1):
        table.advance(10_000)
        table.beat("a", 1, owned=ALL)
        table.beat("b", 2)
    assert "a" in table.group.members
    table.advance(10_000)
    assert set(table.group.members) == {"b"}
    assert shares(table.beat("b", 2)) == ALL
    assert table.beat("a", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_revokes_in_time_stays(table):
    table.beat("a", 0, topics=["t"])
    table.beat("b", 0, topics=["t"])
    table.beat("a", 1)
    table.beat("a", 1, owned={"t": [0, 1]})
    for _ in range(10):
        table.advance(SESSION_MS - 1)
        table.beat("a", 2)
        table.beat("b", 2)
    assert set(table.group.members) == {"a", "b"}


def test_a_session_expires_without_heartbeats(table):
    settled_pair(table)
    table.advance(SESSION_MS - 1)
    table.beat("b", 2)
    table.advance(1)
    assert set(table.group.members) == {"b"}
    assert table.group.state is ConsumerGroupState.ASSIGNING
    assert shares(table.beat("b", 2)) == ALL
    table.advance(SESSION_MS)
    assert table.group.state is ConsumerGroupState.EMPTY
    assert (table.group.topics, table.group.timers, table.live_timers) == ({}, {}, 0)


def test_a_failed_removal_is_retried(table):
    table.beat("a", 0, topics=["t"])
    table.refuses = True
    table.advance(SESSION_MS)
    assert "a" in table.group.members
    table.refuses = False
    table.advance(500)
    assert table.group.is_empty


def test_a_member_leaves(table):
    settled_pair(table)
    answer = table.beat("a", -1)
    assert (answer.error_code, answer.member_id, answer.member_epoch) == (0, "a", -1)
    assert shares(table.beat("b", 2)) == ALL
    assert table.beat("a", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    table.beat("b", -1)
    assert (table.group.timers, table.live_timers) == ({}, 0)


def test_wrong_member_epochs_are_fenced(table):
    settled_pair(table)
    assert table.beat("a", 3).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert table.beat("a", 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH  # says nothing of what it owns
    assert table.beat("a", 1, owned=ALL).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    lost = table.beat("a", 1, owned={"t": [0]})  # the answer that told it of its epoch was lost
    assert (lost.error_code, lost.member_epoch) == (0, 2)
    assert table.beat("c", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_fenced_member_rejoins_at_once(table):
    settled_pair(table)
    again = table.beat("a", 0, topics=["t"])
    assert (again.error_code, again.member_epoch, shares(again)) == (0, 2, {"t": [0, 1]})


def test_a_full_group_refuses_new_members(table):
    table.group_consumer_max_size = 1
    table.beat("a", 0, topics=["t"])
    assert table.beat("b", 0, topics=["t"]).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert table.beat("a", 1).error_code == 0


def test_a_change_that_is_not_written_has_no_effect(table):
    table.beat("a", 0, topics=["t"])
    table.refuses = True
    assert table.beat("b", 0, topics=["t"]).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert table.beat("a", -1).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert set(table.group.members) == {"a"}
    table.refuses = False


def test_fields_that_a_heartbeat_omits_keep_their_values(table):
    table.beat("a", 0, topics=["t"], rack_id="r", assignor="range", rebalance_timeout_ms=7_000)
    table.beat("a", 1)
    member = table.group.members["a"]
    assert (member.rack_id, member.assignor, member.topics) == ("r", "range", ("t",))
    assert member.rebalance_timeout_ms == 7_000
    table.beat("a", 1, rack_id="s")
    assert table.group.members["a"].rack_id == "s"


def test_member_states_have_the_numbers_of_kafka():
    """ConsumerGroupCurrentMemberAssignmentValue.json says what each means."""
    assert {state.name: state.value for state in MemberState} == {
        "STABLE": 0,
        "UNREVOKED_PARTITIONS": 1,
        "UNRELEASED_PARTITIONS": 2,
        "UNKNOWN": 127,
    }


# -- static members ---------------------------------------------------------------------------------------------------


def test_a_static_member_that_rejoins_gets_its_assignment_back(table):
    table.beat("a", 0, topics=["t"], instance_id="i")
    table.beat("b", 0, topics=["t"])
    table.beat("a", 1, instance_id="i")
    table.beat("a", 1, owned={"t": [0, 1]}, instance_id="i")
    table.beat("b", 2)
    epoch = table.group.epoch
    left = table.beat("a", -2, instance_id="i")
    assert (left.error_code, left.member_epoch) == (0, -2)
    assert shares(table.beat("b", 2)) is None  # nobody gets what it had
    back = table.beat("c", 0, topics=["t"], instance_id="i")
    assert (back.error_code, back.member_epoch, shares(back)) == (0, 2, {"t": [0, 1]})
    assert table.group.epoch == epoch  # nothing was rebalanced
    assert set(table.group.members) == {"b", "c"}
    assert table.beat("a", 2, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert table.beat("a", -1, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID


def test_an_instance_id_in_use_is_refused(table):
    table.beat("a", 0, topics=["t"], instance_id="i")
    assert table.beat("c", 0, topics=["t"], instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert table.beat("c", 1, instance_id="j").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_return_is_removed(table):
    table.beat("a", 0, topics=["t"], instance_id="i")
    table.advance(1_000)
    table.beat("a", -2, instance_id="i")
    table.advance(SESSION_MS - 1_000)
    assert table.group.is_empty
    assert table.group.static_members == {}


def test_a_static_member_leaves_for_good(table):
    table.beat("a", 0, topics=["t"], instance_id="i")
    assert table.beat("a", -1, instance_id="i").error_code == 0
    assert table.group.is_empty


# -- topics -----------------------------------------------------------------------------------------------------------


def test_topics_are_created_extended_and_deleted(table):
    table.beat("a", 0, topics=["t", "later"])
    table.image = image({"t": 4, "later": 2})
    assert shares(table.beat("a", 1)) == ALL | {"later": [0, 1]}
    table.image = image({"t": 5, "later": 2})
    assert shares(table.beat("a", 2)) == {"t": [0, 1, 2, 3, 4], "later": [0, 1]}
    table.image = image({"later": 2})
    told = table.beat("a", 3)
    assert shares(told) == {"later": [0, 1]}
    assert table.beat("a", 3, owned=shares(told)).member_epoch == 4


def test_changes_of_other_topics_are_ignored(table):
    table.beat("a", 0, topics=["t"])
    written = len(table.log)
    table.image = image({"t": 4, "other": 2})
    assert shares(table.beat("a", 1)) is None
    assert len(table.log) == written


def test_a_changed_subscription(table):
    table.image = image({"t": 4, "u": 1})
    table.beat("a", 0, topics=["t"])
    told = table.beat("a", 1, topics=["u"])
    assert shares(told) == {}
    assert shares(table.beat("a", 1, owned={})) == {"u": [0]}
    table.beat("a", 2, topics=["t"])
    assert shares(table.beat("a", 2, owned={})) == ALL
    table.beat("a", 3, topics=["not there", "t", "z: not there either"])
    assert table.group.topics.keys() == {"t"}


def test_a_regular_expression(table):
    table.image = image({"t": 4, "t-1": 1, "u": 1})
    answer = table.beat("a", 0, regex="t.*")
    assert shares(answer) == ALL | {"t-1": [0]}
    table.image = image({"t": 4, "t-1": 1, "u": 1, "t-2": 1, "not-t": 1})
    assert shares(table.beat("a", 1)) == ALL | {"t-1": [0], "t-2": [0]}
    changed = table.beat("a", 2, regex="u|not-.")
    assert shares(changed) == {}
    assert shares(table.beat("a", 2, owned={})) == {"u": [0], "not-t": [0]}
    assert list(table.group.regexes) == ["u|not-."]
    together = table.beat("a", 3, topics=["t"], regex="u")
    assert shares(together) == {"u": [0]}  # it has to give up not-t before it gets t
    assert shares(table.beat("a", 3, owned={"u": [0]})) == {"u": [0], "t": [0, 1, 2, 3]}
    table.beat("a", 4, regex="")
    assert table.group.regexes == {}


@pytest.mark.parametrize("pattern", ["(t", "*", "(?=t)", r"(t)\1", "t" * (MAX_PATTERN_CHARACTERS + 1), "(t{999}){999}"])
def test_an_invalid_regular_expression_is_refused(table, pattern):
    answer = table.beat("a", 0, regex=pattern)
    assert answer.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert pattern[:20] in answer.error_message or "\\" in pattern
    assert table.log == []


def test_a_pattern_with_exponential_matching_time_does_not_block(table):
    table.image = image({"a" * 200: 1})
    assert shares(table.beat("a", 0, regex="(a*)*(a*)*b")) == {}


# -- assignors --------------------------------------------------------------------------------------------------------


def test_the_assignor_with_most_votes_is_used(table):
    table.image = image({"t": 3, "u": 3})
    for name, assignor in (("a", "range"), ("b", "range"), ("c", "uniform")):
        table.beat(name, 0, topics=["t", "u"], assignor=assignor)
    assert table.group.preferred_assignor() == "range"
    assert all(set(map(len, target.values())) == {1} and len(target) == 2 for target in table.group.targets.values())


def test_a_loaded_group_starts_the_session_timers_of_its_members(table):
    settled_pair(table)
    loaded = table.replayed()
    before = table.group
    table.load(loaded)
    assert before.state is ConsumerGroupState.DEAD
    assert before.timers == {}
    assert table.live_timers == len(loaded.members)
    table.advance(SESSION_MS - 1)
    assert table.beat("a", 2).error_code == 0
    table.advance(1)
    assert set(table.group.members) == {"a"}


def test_a_loaded_member_gets_its_rebalance_timeout_to_revoke():
    table = ConsumerTable({"t": 4})
    table.beat("a", 0, topics=["t"])
    table.beat("b", 0, topics=["t"])
    table.beat("a", 1)
    table.load(table.replayed())
    for _ in range(2):
        table.advance(REBALANCE_MS // 2)
        table.beat("a", 1, owned=ALL)
    assert "a" not in table.group.members


def test_a_group_whose_records_are_deleted_is_empty_again(table):
    settled_pair(table)
    read = table.replayed()
    for key, _ in [record for record in table.records() if record[1] is not None]:
        read.apply((key, None))
    assert (read.epoch, read.assignment_epoch, read.members, read.targets, read.topics) == (0, -1, {}, {}, {})
    assert read.state is ConsumerGroupState.EMPTY
