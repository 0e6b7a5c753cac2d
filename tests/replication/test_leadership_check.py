"""Whether followers confirm that a broker leads: `replication.leadership_check`."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from replication.in_sync_replicas import InSyncReplicas, LagRules, PendingIsr
from replication.leadership_check import is_still_leader
from support.deadlines import DEADLINE_S
from support.polling import until

SHORT_S = 0.1


class Leader:
    """Broker 1 leads t-0; 2 and 3 are in sync, 4 is not."""

    def __init__(self, isr=(1, 2, 3)):
        self.now_ms = 0
        self.partition = SimpleNamespace(sync=self.term(isr))
        self.partitions = {("t", 0): self.partition}
        self.woken = 0

    def term(self, isr=(1, 2, 3)):
        return InSyncReplicas(1, (1, 2, 3, 4), isr, LagRules(now_ms=lambda: self.now_ms))

    def check_fetches(self, key):
        assert key == ("t", 0)
        self.woken += 1

    def fetch(self, *followers):
        """Each sends a fetch, a millisecond after the last one."""
        for follower in followers:
            self.now_ms += 1
            self.partition.sync.fetched(follower, 0, 0, 0, -1)

    def ask(self, wait_s=DEADLINE_S):
        return asyncio.create_task(is_still_leader(self, "t", 0, wait_s))

    async def looks_again(self, asked):
        """Wait until the question has looked at the followers once more, or has its answer."""
        seen = self.woken
        await until(lambda: asked.done() or self.woken >= seen + 2, "the followers are looked at again")


@pytest.fixture
async def leader():
    return Leader()


async def test_each_follower_in_sync_fetches_twice(leader):
    asked = leader.ask()
    await leader.looks_again(asked)
    leader.fetch(2, 3)
    await leader.looks_again(asked)
    assert not asked.done()
    leader.fetch(2, 3)
    assert await asked


@pytest.mark.parametrize("followers", [(), (2, 2, 2), (2, 3), (2, 3, 2), (4, 4)])
async def test_a_follower_does_not_fetch_often_enough(leader, followers):
    asked = leader.ask(SHORT_S)
    for follower in followers:
        leader.fetch(follower)
        await leader.looks_again(asked)
    assert not await asked


async def test_fetches_before_the_question_do_not_count(leader):
    leader.fetch(2, 3)
    leader.fetch(2, 3)
    assert not await leader.ask(SHORT_S)


async def test_a_follower_that_is_about_to_join_must_fetch_too(leader):
    leader.partition.sync.pending = PendingIsr((1, 2, 3, 4), joining=4)
    asked = leader.ask(SHORT_S)
    for _ in range(3):
        await leader.looks_again(asked)
        leader.fetch(2, 3)
    assert not await asked


async def test_nobody_else_is_in_sync(leader):
    alone = Leader(isr=(1,))
    assert await alone.ask()
    assert alone.woken == 0


@pytest.mark.parametrize("what", ["another term", "a follower", "deleted"])
async def test_the_term_ends_meanwhile(leader, what):
    asked = leader.ask()
    await leader.looks_again(asked)
    if what == "deleted":
        leader.partitions.clear()
    else:
        leader.partition.sync = leader.term() if what == "another term" else None
    assert not await asked


@pytest.mark.parametrize("has_it", [False, True])
async def test_a_broker_that_does_not_lead(leader, has_it):
    leader.partition.sync = None
    if not has_it:
        leader.partitions.clear()
    assert not await leader.ask()
