"""Consumer groups of restless members: whatever they do, and whatever the log does, no partition is owned twice.

Members of both protocols join, stay, are silent, lose answers, leave for good or for a time, change what they are
subscribed to; topics come, grow and go; writes fail; the coordinator loads its state again. A client owns what it was
told last, until it has given that up. At the end everybody behaves, and the group settles: every partition has
one owner.
"""

import random

import pytest

from broker.coordinator.consumer.group import ConsumerGroupState
from protocol.error_codes import ErrorCode
from protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from protocol.versioned import decode_versioned, encode_versioned
from support.consumer_table import REBALANCE_MS, SESSION_MS, ConsumerTable, image, shares
from support.counts import FULL, count

TOPICS = ("t", "u", "v")
STEPS = 120
LOST = {
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNRELEASED_INSTANCE_ID,
}


class Client:
    """A member's client of the new protocol: it reports what it owns whenever that has changed."""

    session_ms = SESSION_MS

    def __init__(self, table, name, rng):
        self.table = table
        self.rng = rng
        self.lives = 0
        self.name = name
        self.instance_id = f"i-{name}" if rng.random() < 0.4 else None
        self.owned = {}
        self.reported = None
        self.epoch = 0
        self.topics = self.pick()
        self.is_in = False
        self.heard_ms = 0
        self.told_ms = None
        self.unheard_ms = None
        self.begin()

    def pick(self):
        return sorted(self.rng.sample(TOPICS, self.rng.randrange(1, 4)))

    def begin(self):
        """A new process: it owns nothing."""
        self.lives += 1
        self.member_id = f"{self.name}-{self.lives}"
        self.lose()

    def lose(self):
        self.owned, self.reported, self.epoch, self.is_in, self.told_ms = {}, None, 0, False, None
        self.unheard_ms = None

    @property
    def is_late(self):
        """It knows that it is out: not heard for its session, or it has not given up in time what it had to."""
        if self.told_ms is not None and self.table.clock_ms - self.told_ms >= REBALANCE_MS:
            return True
        return self.table.clock_ms - self.heard_ms >= self.session_ms

    def step(self, *, loses_answer=False):
        if self.is_in and self.is_late:
            self.lose()
        if not self.is_in:
            answer = self.table.beat(self.member_id, 0, topics=self.topics, instance_id=self.instance_id)
        else:
            owned = self.owned if self.owned != self.reported else None
            answer = self.table.beat(
                self.member_id,
                self.epoch,
                topics=self.topics,
                owned=owned,
                instance_id=self.instance_id,
                rebalance_timeout_ms=REBALANCE_MS if self.reported is None else None,  # all is said again
            )
        if loses_answer or answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            self.reported = None
            if self.unheard_ms is None:
                self.unheard_ms = self.table.clock_ms
            return
        if answer.error_code in LOST:
            self.lose()
            if answer.error_code in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID):
                self.begin()
            return
        assert not answer.error_code, answer
        self.heard_ms = self.table.clock_ms
        self.reported = dict(self.owned) if self.is_in else {}
        self.is_in = True
        self.epoch = answer.member_epoch
        self.told_ms = None
        told = shares(answer)
        if told is not None:
            if any(set(some) - set(told.get(name, ())) for name, some in self.owned.items()):
                # Its time runs since it was told first, in an answer that was lost perhaps.
                self.told_ms = self.table.clock_ms if self.unheard_ms is None else self.unheard_ms
            self.owned = told
        self.unheard_ms = None

    def leave(self):
        if self.is_in:
            temporarily = self.instance_id is not None and self.rng.random() < 0.5
            self.table.beat(self.member_id, -2 if temporarily else -1, instance_id=self.instance_id)
        self.begin()

    def change(self):
        self.topics = self.pick()


class ClassicClient(Client):
    """One of the classic protocol, cooperative: it joins again to tell what it has given up."""

    session_ms = 10_000

    def begin(self):
        self.lives += 1
        self.member_id = ""
        self.instance_id = None
        self.lose()

    def metadata(self):
        owned = [TopicPartition(topic=name, partitions=some) for name, some in self.owned.items()]
        return encode_versioned(ConsumerProtocolSubscription(topics=self.topics, owned_partitions=owned), 1)

    def step(self, *, loses_answer=False):
        if self.is_in and self.is_late:
            self.lose()
            self.member_id = ""
        code = self.table.beat_classic(self.member_id, self.epoch) if self.is_in else ErrorCode.REBALANCE_IN_PROGRESS
        if code in LOST:
            self.lose()
            self.member_id = ""
            return
        if self.is_in:
            self.heard_ms = self.table.clock_ms
        if code is not ErrorCode.REBALANCE_IN_PROGRESS:
            self.told_ms = None
            return
        joined = self.table.join_classic(self.member_id, self.metadata())
        if joined.error_code:
            assert joined.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            return
        self.is_in, self.member_id, self.epoch = True, joined.member_id, joined.generation_id
        self.heard_ms, self.told_ms = self.table.clock_ms, self.table.clock_ms
        synced = self.table.sync_classic(self.member_id, self.epoch)
        if not synced.error_code:
            read, _ = decode_versioned(ConsumerProtocolAssignment, synced.assignment)
            self.owned = {one.topic: one.partitions for one in read.assigned_partitions}

    def leave(self):
        self.begin()  # it dies; its session ends by and by

    def change(self):
        """It would have to join again for that."""


def check_owners(clients, topics):
    """No partition has two owners."""
    owners = {}
    for client in clients:
        if client.is_late:
            continue
        for topic, partitions in client.owned.items():
            for partition in partitions:
                other = owners.setdefault((topic, partition), client.name)
                assert other == client.name, f"{topic}-{partition} is owned by {other} and {client.name}"
    return owners


def run(seed):
    rng = random.Random(seed)
    topics = {name: rng.randrange(1, 7) for name in TOPICS}
    table = ConsumerTable(topics)
    kinds = [Client] * 4 + ([ClassicClient] * 2 if seed % 2 else [])
    clients = [kind(table, f"m{number}", rng) for number, kind in enumerate(kinds)]
    table.membership.default_assignor = rng.choice(["uniform", "range"])

    def reload():
        group = table.replayed()
        assert group.members == table.group.members
        assert group.owners == table.group.owners
        assert group.targets == table.group.targets
        table.load(group)

    for _ in range(STEPS):
        client = rng.choice(clients)
        table.refuses = rng.random() < 0.05
        event = rng.random()
        if event < 0.80:
            client.step(loses_answer=rng.random() < 0.1)
        elif event < 0.85:
            client.leave()
        elif event < 0.90:
            client.change()
        elif event < 0.93:
            topics = topics | {rng.choice(TOPICS): rng.randrange(1, 9)}
            table.image = image(topics)
        elif event < 0.96:
            table.advance(rng.choice([1_000, 9_000, 30_000, SESSION_MS]))
        else:
            table.refuses = False
            reload()
        check_owners(clients, topics)
    table.refuses = False
    for _ in range(30):
        table.advance(2_000)
        for client in clients:
            client.step()
            check_owners(clients, topics)
    table.advance(0)
    owners = check_owners(clients, topics)
    wanted = {name for client in clients for name in client.topics}
    assert owners.keys() == {(name, number) for name in wanted for number in range(topics[name])}
    assert table.group.state is ConsumerGroupState.STABLE
    reload()


@pytest.mark.counted
@pytest.mark.parametrize("part", range(4))
def test_groups_of_random_members_keep_their_rules(part):
    runs = count(40, 2_000) // 4
    for number in range(runs):
        seed = (part * 1_000_000 + number) if FULL else part * 100 + number
        try:
            run(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
