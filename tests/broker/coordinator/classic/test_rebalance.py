"""The rebalance of classic groups, on a clock of its own: each rule by itself."""

import pytest

from broker.coordinator.classic.decision import SESSION
from broker.coordinator.classic.group import GroupState
from broker.coordinator.classic.member import Member
from broker.coordinator.group_records import group_value
from protocol.error_codes import ErrorCode
from support.virtual_host import RANGE, Answers, Table, VirtualHost

STICKY_OR_RANGE = (("sticky", b"s"), ("range", b"r"))


@pytest.fixture
def host():
    return VirtualHost()


@pytest.fixture
def table(host):
    return Table(host)


# -- joining ---------------------------------------------------------------------------------------------------------


def test_the_first_member_waits_for_others_and_becomes_the_leader(host, table):
    host.initial_delay_ms = 3_000
    first, second = table.join(), table.join()
    host.advance(2_999)
    assert not first
    host.advance(3_001)  # the second has put it off by as much again
    (one,), (two,) = first, second
    assert one.leader == two.leader == one.member_id
    assert (one.generation_id, two.generation_id) == (1, 1)
    assert [member.member_id for member in one.members] == [one.member_id, two.member_id]
    assert two.members == []
    assert (one.protocol_type, one.protocol_name) == ("consumer", "range")
    assert table.group.state is GroupState.COMPLETING_REBALANCE


def test_the_initial_delay_is_at_most_the_rebalance_timeout(host, table):
    host.initial_delay_ms = 3_000
    waiting = [table.join(rebalance_timeout_ms=7_000)]
    for _ in range(6):
        host.advance(1_000)
        waiting.append(table.join(rebalance_timeout_ms=7_000))
    assert not any(waiting)
    host.advance(1_000)
    assert all(waiting)


def test_only_the_first_generation_is_delayed(host, table):
    host.initial_delay_ms = 3_000
    first = table.join()
    host.advance(3_000)
    second = table.join()
    again = table.join(first[0].member_id)
    assert second  # at once: all have joined
    assert again
    assert again[0].generation_id == 2


def test_a_new_member_must_rejoin_with_the_id_that_it_is_given(host, table):
    (refused,) = table.join(requires_member_id=True)
    assert refused.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert refused.member_id.startswith("c-uuid")
    assert table.group.state is GroupState.EMPTY
    joined = table.join(refused.member_id)
    host.advance(0)
    assert joined[0].member_id == refused.member_id


def test_a_rebalance_waits_for_pending_members_until_they_expire(host, table):
    (leader,) = table.gather(1)
    table.join(requires_member_id=True, session_timeout_ms=8_000)
    table.join()  # somebody else begins the rebalance
    again = table.join(leader.member_id)
    host.advance(7_999)
    assert not again
    host.advance(1)
    assert again


def test_an_expired_member_id_is_unknown(host, table):
    (refused,) = table.join(requires_member_id=True, session_timeout_ms=8_000)
    host.advance(8_000)
    (answer,) = table.join(refused.member_id)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_pending_member_can_leave(host, table):
    (leader,) = table.gather(1)
    (pending,) = table.join(requires_member_id=True)
    table.join()
    again = table.join(leader.member_id)
    assert not again
    assert table.leave(pending.member_id) == ErrorCode.NONE
    assert again


def test_a_member_without_a_common_protocol_is_refused(host, table):
    (leader,) = table.gather(1)
    for wrong in (
        {"protocols": (("other", b""),)},
        {"protocols": ()},
        {"protocol_type": "connect"},
        {"protocol_type": ""},
    ):
        (answer,) = table.join(**wrong)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert table.heartbeat(leader) == ErrorCode.NONE
    empty = Table(host)
    assert empty.join(protocols=())[0].error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_common_protocol_with_most_votes_is_selected(host, table):
    host.initial_delay_ms = 1
    waiting = [
        table.join(protocols=STICKY_OR_RANGE),
        table.join(protocols=(("range", b"R"), ("sticky", b"S"))),
        table.join(protocols=(("only-mine", b"x"), *STICKY_OR_RANGE)),
    ]
    host.advance(2)
    assert {answers[0].protocol_name for answers in waiting} == {"sticky"}
    assert [member.metadata for member in waiting[0][0].members] == [b"s", b"S", b"s"]


def test_a_member_that_rejoins_unchanged_gets_the_same_generation(host, table):
    leader, follower = table.gather(2)
    stored = len(host.stored)
    (again,) = table.join(follower.member_id)
    assert (again.error_code, again.generation_id, again.members) == (0, leader.generation_id, [])
    assert table.group.state is GroupState.STABLE
    assert len(host.stored) == stored


@pytest.mark.parametrize("topics", [b"", b"zz"])
def test_a_rejoin_of_a_changed_member_or_of_the_leader_starts_a_rebalance(host, table, topics):
    leader, follower = table.gather(2)
    assert not table.join(follower.member_id, protocols=(("range", topics),))
    assert table.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
    assert table.join(leader.member_id)


def test_the_leader_rebalances_a_group_by_rejoining(host, table):
    leader, follower = table.gather(2)
    assert not table.join(leader.member_id)
    assert table.heartbeat(follower) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_repeated_join_during_completing_rebalance_is_answered_again(host, table):
    joined = table.join()
    host.advance(0)
    (again,) = table.join(joined[0].member_id)
    assert again == joined[0]


def test_a_second_join_of_a_member_supersedes_the_first(host, table):
    (leader, follower) = table.gather(2)
    first = table.join(follower.member_id, protocols=(("range", b"new"),))
    second = table.join(follower.member_id, protocols=(("range", b"newer"),))
    assert first[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    table.join(leader.member_id)
    assert second[0].error_code == 0


def test_unknown_members_are_refused(host, table):
    table.gather(1)
    (answer,) = table.join("nobody")
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_join_in_time_is_removed(host, table):
    leader, silent = table.gather(2, session_timeout_ms=100_000)
    table.join(rebalance_timeout_ms=5_000)
    again = table.join(leader.member_id, rebalance_timeout_ms=5_000, session_timeout_ms=100_000)
    host.advance(59_999)  # the longest timeout of all: the silent one's
    assert not again
    host.advance(1)
    assert again[0].generation_id == leader.generation_id + 1
    assert table.heartbeat(silent) == ErrorCode.UNKNOWN_MEMBER_ID


def test_another_member_becomes_the_leader_if_the_leader_does_not_join(host, table):
    _, follower = table.gather(2, session_timeout_ms=100_000)
    again = table.join(follower.member_id, protocols=(("range", b"new"),))
    host.advance(60_000)
    assert again[0].leader == follower.member_id
    assert [member.member_id for member in again[0].members] == [follower.member_id]


def test_the_size_of_a_group_is_limited(host, table):
    host.max_size = 2
    members = table.gather(2)
    (answer,) = table.join()
    assert (answer.error_code, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert [table.heartbeat(member) for member in members] == [0, 0]


def test_the_last_members_to_join_an_oversized_group_are_refused(host, table):
    members = table.gather(3)
    host.max_size = 2
    with table.step() as step:
        step.prepare("test")
    answers = [table.join(member.member_id) for member in members]
    assert [bool(answer and answer[0].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED) for answer in answers] == [
        False,
        False,
        True,
    ]
    assert len(table.group.members) == 2
    assert answers[0][0].generation_id == members[0].generation_id + 1


# -- sync ------------------------------------------------------------------------------------------------------------


def test_followers_wait_for_the_leaders_assignment(host, table):
    host.initial_delay_ms = 1
    waiting = table.join(), table.join()
    host.advance(2)
    leader, follower = (answers[0] for answers in waiting)
    synced = table.sync(follower)
    assert not synced
    host.holds = True
    led = table.sync(leader, {leader.member_id: b"one", follower.member_id: b"two"})
    assert not led
    assert not synced
    assert table.group.state is GroupState.COMPLETING_REBALANCE
    host.release()
    assert (led[0].assignment, synced[0].assignment) == (b"one", b"two")
    assert (synced[0].protocol_type, synced[0].protocol_name) == ("consumer", "range")
    assert table.group.state is GroupState.STABLE
    assert host.stored[-1] == (1, {leader.member_id: b"one", follower.member_id: b"two"})


def test_a_member_without_an_assignment_gets_an_empty_one(host, table):
    leader, follower = table.gather(2)
    table.join(leader.member_id)
    (joined,) = table.join(follower.member_id)
    synced = table.sync(joined)
    table.sync(joined, {leader.member_id: b"all", "stranger": b"x"}, member_id=leader.member_id)
    assert (synced[0].error_code, synced[0].assignment) == (0, b"")


@pytest.mark.parametrize(
    ("error", "expected"),
    [(ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR), (ErrorCode.REBALANCE_IN_PROGRESS, None)],
)
def test_an_assignment_that_is_not_stored_is_not_sent(host, table, error, expected):
    leader, follower = table.gather(2)
    table.join(leader.member_id)
    (joined,) = table.join(follower.member_id)
    synced = table.sync(joined)
    host.holds = True
    led = table.sync(joined, {}, member_id=leader.member_id)
    host.release(error)
    assert {led[0].error_code, synced[0].error_code} == {expected or error}
    assert table.group.state is GroupState.PREPARING_REBALANCE


def test_an_assignment_of_an_old_generation_is_ignored(host, table):
    leader, follower = table.gather(2)
    table.join(leader.member_id)
    (joined,) = table.join(follower.member_id)
    host.holds = True
    led = table.sync(joined, {leader.member_id: b"old"}, member_id=leader.member_id)
    table.leave(follower.member_id)
    assert led[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    (alone,) = table.join(leader.member_id)
    host.release()
    assert table.group.state is GroupState.COMPLETING_REBALANCE
    assert table.group.members[alone.member_id].assignment == b""


def test_sync_group_errors(host, table):
    leader, follower = table.gather(2)
    for changes, expected in (
        ({"member_id": "nobody"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"generation_id": leader.generation_id - 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": leader.generation_id + 1}, ErrorCode.ILLEGAL_GENERATION),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({}, ErrorCode.NONE),
        ({"protocol_type": "consumer", "protocol_name": "range"}, ErrorCode.NONE),
    ):
        assert table.sync(follower, **changes)[0].error_code == expected
    table.join(leader.member_id)
    assert table.sync(follower)[0].error_code == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_does_not_sync_in_time_is_removed(host, table):
    host.initial_delay_ms = 1
    waiting = table.join(session_timeout_ms=100_000), table.join(session_timeout_ms=100_000)
    host.advance(2)
    leader, silent = (answers[0] for answers in waiting)
    table.sync(leader, {})
    host.advance(59_999)
    assert table.group.state is GroupState.STABLE
    host.advance(1)
    assert table.group.state is GroupState.PREPARING_REBALANCE
    assert list(table.group.members) == [leader.member_id]
    assert silent.member_id not in table.group.members


# -- sessions --------------------------------------------------------------------------------------------------------


def test_a_member_without_heartbeats_is_removed_after_its_session_timeout(host, table):
    leader, follower = table.gather(2)
    host.advance(9_000)
    assert table.heartbeat(leader) == ErrorCode.NONE
    host.advance(999)
    assert table.heartbeat(leader) == ErrorCode.NONE
    host.advance(1)
    assert table.heartbeat(leader) == ErrorCode.REBALANCE_IN_PROGRESS
    assert table.heartbeat(follower) == ErrorCode.UNKNOWN_MEMBER_ID


def test_members_that_wait_for_an_answer_need_no_heartbeats(host, table):
    leader, follower = table.gather(2)
    again = table.join(leader.member_id)
    for _ in range(5):
        host.advance(9_000)
        table.heartbeat(follower)
    assert not again
    assert leader.member_id in table.group.members
    (joined,) = table.join(follower.member_id)
    synced = table.sync(joined)
    for _ in range(5):  # the leader takes its time, the follower waits
        host.advance(9_000)
        assert table.heartbeat(again[0]) == ErrorCode.NONE
    table.sync(again[0], {})
    assert synced[0].error_code == 0
    host.advance(9_999)
    assert follower.member_id in table.group.members


def test_a_new_member_that_disconnects_is_removed_after_the_new_member_timeout(host, table):
    (leader,) = table.gather(1, rebalance_timeout_ms=3_600_000)
    lost = table.join(rebalance_timeout_ms=3_600_000)
    waited_ms = 0
    while not lost:
        table.heartbeat(leader)
        host.advance(5_000)
        waited_ms += 5_000
    assert waited_ms == 300_000
    assert lost[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(table.group.members) == 1


def test_a_member_from_the_log_is_not_new():
    member = Member(
        "m",
        group_instance_id=None,
        client_id="c",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=10_000,
        protocols=RANGE,
    )
    assert member.needs_heartbeat
    member.joining = Answers()
    assert not member.needs_heartbeat


def test_heartbeats_of_unknown_members_and_generations_are_refused(host, table):
    (member,) = table.gather(1)
    member.generation_id += 1
    assert table.heartbeat(member) == ErrorCode.ILLEGAL_GENERATION
    member.member_id = "nobody"
    assert table.heartbeat(member) == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_group_is_empty_after_its_last_member_leaves(host, table):
    (member,) = table.gather(1)
    assert table.leave(member.member_id) == ErrorCode.NONE
    assert table.group.state is GroupState.EMPTY
    assert table.group.generation == 2
    assert host.stored[-1] == (2, {})
    assert table.leave(member.member_id) == ErrorCode.UNKNOWN_MEMBER_ID
    assert host.live_timers == 0


# -- static members --------------------------------------------------------------------------------------------------


def static(table, name, member_id="", **changes):
    return table.join(member_id, group_instance_id=name, **changes)


@pytest.fixture
def two(host, table):
    """A stable group of two static members: their answers, the leader first."""
    host.initial_delay_ms = 1
    waiting = static(table, "a"), static(table, "b")
    host.advance(2)
    joined = [answers[0] for answers in waiting]
    for one, name in zip(joined, "ab", strict=True):
        table.sync(one, {each.member_id: each.member_id.encode() for each in joined}, group_instance_id=name)
    assert table.group.state is GroupState.STABLE
    return joined


@pytest.mark.parametrize("version", [8, 9])
def test_a_static_member_rejoins_without_a_rebalance(host, table, two, version):
    stored = len(host.stored)
    (back,) = static(table, "a", can_skip_assignment=version >= 9)
    assert (back.error_code, back.generation_id) == (0, 1)
    assert back.member_id != two[0].member_id
    if version >= 9:
        assert (back.leader, back.skip_assignment, len(back.members)) == (back.member_id, True, 2)
    else:
        assert (back.leader, back.skip_assignment, back.members) == (two[0].member_id, False, [])
    assert len(host.stored) == stored + 1
    assert host.stored[-1][1][back.member_id] == two[0].member_id.encode()  # it keeps its assignment
    assert table.group.state is GroupState.STABLE
    assert table.sync(back, group_instance_id="a")[0].assignment == two[0].member_id.encode()
    assert table.heartbeat(two[1], "b") == ErrorCode.NONE


def test_the_replaced_static_member_is_fenced(host, table, two):
    static(table, "a")
    assert table.heartbeat(two[0], "a") == ErrorCode.FENCED_INSTANCE_ID
    assert table.sync(two[0], group_instance_id="a")[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert static(table, "a", two[0].member_id)[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    assert table.leave(two[0].member_id, "a") == ErrorCode.FENCED_INSTANCE_ID
    assert table.heartbeat(two[0]) == ErrorCode.UNKNOWN_MEMBER_ID
    assert static(table, "new", two[1].member_id)[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_replaced_static_member_is_fenced_while_it_waits(host, table, two):
    with table.step() as step:
        step.prepare("test")
    waiting = static(table, "a", two[0].member_id)
    back = static(table, "a")
    assert waiting[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    static(table, "b", two[1].member_id)
    assert back[0].generation_id == 2


def test_the_record_of_a_static_rejoin_is_that_of_the_changed_group(host, table, two):
    (back,) = static(table, "a", protocols=(("range", b"new topics"),), session_timeout_ms=7_000)
    group = table.group
    assert list(group.members) == [back.member_id, two[1].member_id]
    assert group.leader_id == back.member_id
    assert group.members[back.member_id].session_timeout_ms == 7_000
    assert host.values[-1] == group_value(group, {one.member_id: one.assignment for one in group.members.values()})


def test_a_static_rejoin_that_the_log_refuses_changes_nothing(host, table, two):
    host.outcome = ErrorCode.NOT_ENOUGH_REPLICAS
    (back,) = static(table, "a", protocols=(("range", b"new topics"),), session_timeout_ms=7_000)
    assert (back.error_code, back.member_id) == (ErrorCode.NOT_ENOUGH_REPLICAS, "")
    assert table.heartbeat(two[0], "a") == ErrorCode.NONE
    member = table.group.members[two[0].member_id]
    assert (member.protocols, member.session_timeout_ms, member.joining) == (RANGE, 10_000, None)


def test_a_static_rejoin_that_is_not_committed_remains_as_it_is_in_the_log(host, table, two):
    host.holds = True
    back = static(table, "a")
    assert table.heartbeat(two[0], "a") == ErrorCode.FENCED_INSTANCE_ID
    assert not back
    host.release(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert [(one.error_code, one.member_id) for one in back] == [(ErrorCode.NOT_ENOUGH_REPLICAS, "")]
    assert table.heartbeat(two[0], "a") == ErrorCode.FENCED_INSTANCE_ID
    again = static(table, "a")
    host.release()
    assert (again[0].error_code, again[0].generation_id) == (0, 1)
    assert table.sync(again[0], group_instance_id="a")[0].assignment == two[0].member_id.encode()
    assert table.group.timers.keys() == {(SESSION, member_id) for member_id in table.group.members}


def test_two_concurrent_static_rejoins(host, table, two):
    host.holds = True
    first = static(table, "a")
    second = static(table, "a")
    assert first[0].error_code == ErrorCode.FENCED_INSTANCE_ID
    host.release()
    assert not second  # its own record is not committed yet
    host.release()
    assert second[0].error_code == 0


def test_a_static_rejoin_with_other_protocols_starts_a_rebalance(host, table, two):
    (back,) = static(table, "a", protocols=(("range", b"new topics"),))
    assert back.error_code == 0  # the protocol stays the same: its metadata is for the next rebalance
    assert table.group.state is GroupState.STABLE


def test_a_static_rejoin_during_completing_rebalance_starts_a_rebalance(host, table, two):
    with table.step() as step:
        step.prepare("test")
    static(table, "a", two[0].member_id)
    static(table, "b", two[1].member_id)
    assert table.group.state is GroupState.COMPLETING_REBALANCE
    static(table, "b")
    assert table.group.state is GroupState.PREPARING_REBALANCE


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_a_follower_that_comes_back_does_not_lead(host, table, names):
    host.initial_delay_ms = 1
    first, second = static(table, names[0]), static(table, names[1])
    host.advance(2)
    assert first[0].leader == second[0].leader == first[0].member_id
    static(table, names[1])
    assert table.group.leader_id == first[0].member_id


def test_a_rebalance_begins_while_a_static_rejoin_is_stored(host, table, two):
    host.holds = True
    back = static(table, "a")
    assert table.leave(two[1].member_id, "b") == ErrorCode.NONE
    assert back[0].generation_id == 2  # it has joined already
    host.release()
    assert len(back) == 1


def test_static_members_stay_in_the_group_until_their_session_expires(host, table, two):
    with table.step() as step:
        step.prepare("test")
    again = static(table, "a", two[0].member_id, session_timeout_ms=100_000)
    host.advance(0)
    table.heartbeat(two[1], "b")
    assert not again
    table.group.members[two[1].member_id].session_timeout_ms = 100_000
    table.heartbeat(two[1], "b")
    host.advance(60_000)
    assert [member.group_instance_id for member in again[0].members] == ["a", "b"]


@pytest.mark.parametrize("names", ["abc", "acb"])
def test_the_leader_stays_the_leader_when_another_member_leaves(host, table, names):
    """The first member of the group is not the leader: it is static, and has not joined the last generation."""
    host.initial_delay_ms = 1
    waiting = [static(table, name, session_timeout_ms=100_000) for name in names]
    host.advance(2)
    with table.step() as step:
        step.prepare("test")
    _, leader, other = (answers[0].member_id for answers in waiting)
    again = static(table, names[1], leader)
    static(table, names[2], other)
    host.advance(60_000)
    assert again[0].leader == leader
    assert table.leave(other, names[2]) == ErrorCode.NONE
    assert table.group.leader_id == leader


def test_a_rebalance_without_joins_waits_for_the_sessions_of_static_members(host, table, two):
    for member in table.group.members.values():
        member.session_timeout_ms = 100_000
    assert table.heartbeat(two[0], "a") == table.heartbeat(two[1], "b") == ErrorCode.NONE
    with table.step() as step:
        step.prepare("test")
    host.advance(60_000)
    assert table.group.state is GroupState.PREPARING_REBALANCE
    host.advance(40_000)
    assert table.group.state is GroupState.EMPTY
    assert table.group.static_members == {}


def test_an_administrator_removes_a_static_member_by_its_instance_id(host, table, two):
    assert table.leave("", "nobody") == ErrorCode.UNKNOWN_MEMBER_ID
    assert table.leave("", "b") == ErrorCode.NONE
    assert list(table.group.static_members) == ["a"]
    assert table.heartbeat(two[0], "a") == ErrorCode.REBALANCE_IN_PROGRESS


# -- loading ---------------------------------------------------------------------------------------------------------


def test_members_of_a_loaded_group_have_one_session_timeout_to_send_a_heartbeat(host, table):
    leader, _ = table.gather(2)
    for timer in table.group.timers.values():
        timer.cancel()
    with table.step() as step:
        step.loaded()
    host.advance(9_999)
    assert table.heartbeat(leader) == ErrorCode.NONE
    host.advance(1)
    assert list(table.group.members) == [leader.member_id]


def test_a_loaded_group_that_is_too_large_rebalances(host, table):
    table.gather(2)
    host.max_size = 1
    with table.step() as step:
        step.loaded()
    assert table.group.state is GroupState.PREPARING_REBALANCE


def test_waiting_members_get_not_coordinator_when_the_group_is_unloaded(host, table):
    host.initial_delay_ms = 1
    waiting = table.join(), table.join()
    host.advance(2)
    joined = [answers[0] for answers in waiting]
    synced = table.sync(joined[1])
    with table.step() as step:
        step.unload()
    assert synced[0].error_code == ErrorCode.NOT_COORDINATOR
    other = Table(host)
    late = other.join()
    with other.step() as step:
        step.unload()
    assert late[0].error_code == ErrorCode.NOT_COORDINATOR
    assert host.live_timers == 0
    for gone in (table, other):
        assert gone.join()[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert gone.heartbeat(joined[0]) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert gone.sync(joined[0])[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_write_that_completes_after_the_group_is_unloaded_is_ignored(host, table):
    (leader,) = table.gather(1)
    (joined,) = table.join(leader.member_id, protocols=RANGE)
    host.holds = True
    led = table.sync(joined, {leader.member_id: b"x"})
    with table.step() as step:
        step.unload()
    host.release()
    assert [answer.error_code for answer in led] == [ErrorCode.NOT_COORDINATOR]
    assert table.group.state is GroupState.DEAD
