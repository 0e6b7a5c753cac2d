"""Groups of restless members: whatever they do, and whatever the storage does, the rules of the group hold.

Members join, sync, send heartbeats, leave, hang, come back and are fenced, on a clock of their own; storing takes time
or fails. At the end everybody behaves, and the group settles: one generation, each member with what the leader gave it.
"""

from __future__ import annotations

import random

import pytest

from broker.coordinator.classic.decision import JOIN, SESSION
from broker.coordinator.classic.group import GroupState
from protocol.error_codes import ErrorCode
from support.counts import FULL, count
from support.virtual_host import Table, VirtualHost

JOIN_TIMER = (JOIN, "")
RETRY = {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NOT_ENOUGH_REPLICAS}
LOST = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
}


class Client:
    """A member's client, as Kafka's: it joins, syncs, sends heartbeats, and rejoins when it is told to."""

    def __init__(self, table, name, rng):
        self.table = table
        self.rng = rng
        self.instance_id = name if rng.random() < 0.3 else None
        self.version = rng.choice([3, 5, 9])
        self.member_id = ""
        self.joining = None
        self.syncing = None
        self.joined = None
        self.assignment = None
        self.metadata = b"0"

    @property
    def claims(self):
        return {"group_instance_id": self.instance_id}

    def step(self):
        """Do what comes next."""
        if self.joining is not None:
            if self.joining:
                self.on_joined(self.joining[0])
        elif self.syncing is not None:
            if self.syncing:
                self.on_synced(self.syncing[0])
        elif self.joined is None:
            self.join()
        else:
            self.react(self.table.heartbeat(self.joined, self.instance_id))

    def join(self):
        self.assignment = self.joined = self.syncing = None
        self.joining = self.table.join(
            self.member_id,
            group_instance_id=self.instance_id,
            rebalance_timeout_ms=20_000,
            protocols=(("range", self.metadata), ("sticky", self.metadata)),
            requires_member_id=self.version >= 4 and self.instance_id is None,
            can_skip_assignment=self.version >= 9,
        )

    def on_joined(self, answer):
        self.joining = None
        if answer.error_code in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.NONE):
            self.member_id = answer.member_id
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.join()
        elif answer.error_code:
            self.react(answer.error_code)
        else:
            self.joined = answer
            leads = answer.leader == answer.member_id and not answer.skip_assignment
            given = {
                one.member_id: b"%d for %s" % (answer.generation_id, one.member_id.encode()) for one in answer.members
            }
            self.syncing = self.table.sync(answer, given if leads else {}, **self.claims)

    def on_synced(self, answer):
        self.syncing = None
        if answer.error_code:
            self.react(answer.error_code)
        else:
            self.assignment = answer.assignment

    def react(self, code):
        if code == ErrorCode.NONE:
            return
        assert code in RETRY | LOST, code
        if code in LOST:
            self.member_id = ""
        self.joined = self.assignment = None

    def misbehave(self):
        """Something that clients do in the course of their lives."""
        what = self.rng.choice(["leave", "vanish", "restart", "change", "old heartbeat", "lost answer"])
        if what == "leave" and self.member_id:
            self.table.leave(self.member_id, self.instance_id)
            self.reset()
        elif what == "restart":
            self.reset()
        elif what == "change":
            self.metadata = b"%d" % self.rng.randrange(5)
            if self.joined is not None and self.syncing is None:
                self.join()
        elif what == "old heartbeat" and self.joined is not None:
            self.joined.generation_id -= 1
            self.table.heartbeat(self.joined, self.instance_id)
            self.joined.generation_id += 1
        elif what == "lost answer":
            self.joining = self.syncing = self.joined = self.assignment = None

    def reset(self):
        self.member_id = ""
        self.joining = self.syncing = self.joined = self.assignment = None


def check(table):
    """What holds at every moment."""
    group = table.group
    assert group.waiting_count == sum(member.joining is not None for member in group.members.values())
    assert group.static_members == {
        member.group_instance_id: member_id for member_id, member in group.members.items() if member.is_static
    }
    assert all(member.member_id == member_id for member_id, member in group.members.items())
    assert (group.leader_id in group.members) if group.members else group.leader_id is None
    assert group.pending_sync <= group.members.keys()
    assert not group.pending_members & group.members.keys()
    names = [name for member in group.members.values() for name, _ in member.protocols]
    assert group.protocol_counts == {name: names.count(name) for name in names}
    if group.state is GroupState.EMPTY:
        assert not group.members
    if group.is_in(GroupState.COMPLETING_REBALANCE, GroupState.STABLE):
        assert group.members
        assert group.protocol_name in names
        assert JOIN_TIMER not in group.timers
    if group.state is GroupState.PREPARING_REBALANCE:
        assert JOIN_TIMER in group.timers
        assert all(member.syncing is None for member in group.members.values())
    for member in group.members.values():
        assert (SESSION, member.member_id) in group.timers or not member.needs_heartbeat
    if group.state is GroupState.STABLE:
        assert all(member.syncing is None for member in group.members.values())


def live(seed):
    rng = random.Random(seed)
    host = VirtualHost(initial_delay_ms=rng.choice([0, 3_000]), max_size=rng.choice([3, 1_000]))
    table = Table(host)
    clients = [Client(table, f"i{number}", rng) for number in range(rng.randrange(1, 7))]
    given = {}
    for _ in range(rng.randrange(50, 300)):
        host.holds = rng.random() < 0.5
        host.outcome = ErrorCode.NOT_ENOUGH_REPLICAS if rng.random() < 0.1 else ErrorCode.NONE
        client = rng.choice(clients)
        if rng.random() < 0.1:
            client.misbehave()
        else:
            client.step()
        if rng.random() < 0.5:
            host.release(rng.choice([ErrorCode.NONE] * 5 + [ErrorCode.NOT_ENOUGH_REPLICAS]))
        host.advance(rng.choice([0, 0, 100, 1_000, 5_000]))
        check(table)
        for client in clients:
            if client.assignment is not None and client.joined.generation_id == table.group.generation:
                known = given.setdefault((client.joined.generation_id, client.member_id), client.assignment)
                assert known == client.assignment, "two assignments in one generation"
    host.holds, host.outcome, host.max_size = False, ErrorCode.NONE, 1_000
    host.release(count=host.held)
    return table, clients


def settle(table, clients):
    for _ in range(200):
        for client in clients:
            client.step()
        table.host.advance(1_000)
        check(table)
        if (
            table.group.state is GroupState.STABLE
            and all(client.assignment is not None for client in clients)
            and {client.member_id for client in clients} == table.group.members.keys()  # those who vanished are gone
        ):
            return
    raise AssertionError(f"{table.group} does not settle")


@pytest.mark.counted
@pytest.mark.timeout(1800 if FULL else 120)
def test_a_group_of_random_members_keeps_its_rules_and_becomes_stable():
    for seed in range(count(200, 5_000)):
        try:
            table, clients = live(seed)
            settle(table, clients)
            group = table.group
            assert {client.joined.generation_id for client in clients} == {group.generation}
            for client in clients:
                assert client.assignment == group.members[client.member_id].assignment
                assert client.assignment.endswith(b" for " + client.member_id.encode()) or client.instance_id
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
