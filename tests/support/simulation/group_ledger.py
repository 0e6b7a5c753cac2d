"""The rules of groups, checked against the observations of their members.

- **Assignments.** Of one generation of a group everybody gets what one leader sent in one SyncGroup, his own share of
  it. That is written before it is answered, so a later leader's is of a higher generation.
- **Offsets.** What OffsetFetch answers was attempted, and no commit was acknowledged that is certainly later: one that
  was sent after the other had its answer, or by a later generation (the earlier is fenced from then on).
- A coordinator that was replaced and does not know it may answer from what it has. So what a member reads is held only
  against what was acknowledged before its generation was sent, where the coordinator is the one that gave it out; at
  the end, when everything is mended, reads are held against everything.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from support.simulation.ledger import BrokenPromiseError

NO_OFFSET = -1


@dataclass(eq=False)
class Sent:
    """The SyncGroup request of a group leader."""

    generation: int
    shares: Mapping[str, bytes]
    sent_s: float
    known_generation: int
    """The latest that anybody had been given when it was sent."""


@dataclass(eq=False)
class Commit:
    """An OffsetCommit of one partition."""

    offset: int
    generation: int
    sent_s: float
    answered_s: float = math.inf
    """Without an answer it may be carried out at any time."""
    is_acknowledged: bool = False
    is_refused: bool = False
    """With an error that says that nothing was written."""

    def is_surely_before(self, other: Commit) -> bool:
        """Whether it cannot be executed after `other`, which was acknowledged."""
        return other.sent_s > self.answered_s or other.generation > self.generation


@dataclass(eq=False)
class GroupLedger:
    """One group."""

    group_id: str
    now_s: Callable[[], float]
    sent: dict[int, Sent] = field(default_factory=dict)
    """By number."""
    given: dict[int, int] = field(default_factory=dict)
    """By generation: the number of what was sent."""
    commits: dict[int, list[Commit]] = field(default_factory=dict)
    """By partition, as they were sent."""
    reads: int = 0

    @property
    def acknowledged(self) -> int:
        """The number of commits."""
        return sum(one.is_acknowledged for some in self.commits.values() for one in some)

    def send(self, generation: int, shares: Mapping[str, list[int]]) -> dict[str, bytes]:
        """Record what a leader is about to send. Return what it must send."""
        number = len(self.sent)
        encoded = {
            member: json.dumps([number, generation, member, partitions]).encode()
            for member, partitions in shares.items()
        }
        self.sent[number] = Sent(generation, encoded, self.now_s(), max(self.given, default=-1))
        return encoded

    def give(self, generation: int, member_id: str, share: bytes) -> tuple[Sent, list[int]]:
        """Record the assignment that a member received."""
        who = f"group {self.group_id}, generation {generation}, member {member_id}"
        if not share:
            raise BrokenPromiseError(f"{who}: it was given nothing")
        number, sent_generation, sent_member, partitions = json.loads(share)
        sent = self.sent[number]
        if (sent_generation, sent_member) != (generation, member_id) or sent.shares[member_id] != share:
            raise BrokenPromiseError(f"{who}: it was given {share!r}")
        before = self.given.setdefault(generation, number)
        if before != number:
            raise BrokenPromiseError(f"{who}: it was given {share!r}, others what was sent in {before}")
        if sent.known_generation >= generation and self.given[sent.known_generation] != number:
            raise BrokenPromiseError(f"{who}: when that was sent there was generation {sent.known_generation} already")
        return sent, partitions

    def commit(self, partition: int, generation: int) -> Commit:
        """Record that a member is about to commit the next offset."""
        commits = self.commits.setdefault(partition, [])
        commit = Commit(len(commits) + 1, generation, self.now_s())
        commits.append(commit)
        return commit

    def read(self, partition: int, offset: int, *, before_s: float, strict: bool = True) -> None:
        """Check an offset returned by OffsetFetch: it must include commits acknowledged before `before_s`."""
        self.reads += 1
        commits = self.commits.get(partition, [])
        where = f"group {self.group_id}, partition {partition}"
        if offset == NO_OFFSET:
            found = Commit(NO_OFFSET, -2, -math.inf, -math.inf)
        elif 0 < offset <= len(commits) and not commits[offset - 1].is_refused:
            found = commits[offset - 1]
        else:
            raise BrokenPromiseError(f"{where}: nobody has committed {offset}")
        if not strict:
            return
        for other in commits:
            if other.is_acknowledged and other.answered_s < before_s and found.is_surely_before(other):
                raise BrokenPromiseError(
                    f"{where}: {other.offset} was acknowledged (generation {other.generation}), the answer is {offset}"
                )
