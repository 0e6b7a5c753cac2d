"""The history of one run, as recorded by the clients: operations with requests, answers and times.

Times are nanoseconds of the machine's monotonic clock, which all processes share. A value is written once in a whole
run: it names its producer, its transaction and its number, so its origin is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

Partition = tuple[str, int]


class Outcome(Enum):
    """The outcome of an operation as known to its client."""

    OK = "ok"
    """It was told that it is done."""
    FAIL = "fail"
    """It cannot have been done: an abort, or a commit that was never asked for."""
    UNKNOWN = "unknown"
    """It may have been done or not, now or later: no answer, an error, a death."""


class Record(NamedTuple):
    """The record that a reader received."""

    partition: Partition
    offset: int
    value: str


@dataclass
class Write:
    """One record that was sent."""

    partition: Partition
    value: str
    sent_ns: int
    offset: int | None = None
    """What the acknowledgement said; None where there was none."""


@dataclass
class Start:
    """InitProducerId: one life of a producer. From its answer on, those before it with the same id are zombies."""

    client: str
    transactional_id: str
    asked_ns: int
    ready_ns: int | None = None

    @property
    def outcome(self) -> Outcome:
        """Whether it began."""
        return Outcome.UNKNOWN if self.ready_ns is None else Outcome.OK


@dataclass
class Transaction:
    """One transaction; or one record of a producer without transactions, whose acknowledgement is its commit."""

    client: str
    number: int
    transactional_id: str | None
    began_ns: int
    ending_ns: int | None = None
    """When its commit was asked for."""
    ended_ns: int | None = None
    outcome: Outcome = Outcome.FAIL
    writes: list[Write] = field(default_factory=list)
    inputs: list[Record] = field(default_factory=list)
    """What it read, for the group, and what its writes stand for."""
    group: str | None = None
    offsets: dict[Partition, int] = field(default_factory=dict)
    """Offsets that it commits for the group."""
    is_idempotent: bool = True
    """Whether its producer is. If not, records may be there twice and in another order."""

    def __str__(self) -> str:
        return f"{self.client}/{self.number} ({self.outcome.value})"


class Seek(NamedTuple):
    """A reader continues at this offset."""

    partition: Partition
    offset: int


class Poll(NamedTuple):
    """A reader received records."""

    told_ns: int
    records: list[Record]


class End(NamedTuple):
    """A reader learned that no record exists before this offset."""

    partition: Partition
    offset: int


class Reset(NamedTuple):
    """A reader learned that its offset does not exist."""

    partition: Partition


@dataclass
class Reader:
    """One consumer without a group, and its observations in order."""

    name: str
    committed: bool
    """Isolation level: read_committed or read_uncommitted."""
    events: list[Seek | Poll | End | Reset] = field(default_factory=list)
    follows: bool = True
    """Whether it has to have come to the end of every partition that it ever read."""


class Committed(NamedTuple):
    """A group's offset, as an acknowledged commit or as an answer of the coordinator says."""

    group: str
    partition: Partition
    offset: int
    when_ns: int
    """When the commit was acknowledged; when the coordinator was asked."""


@dataclass
class Rest:
    """The contents of a partition at the end of the run."""

    end: int
    """The high watermark."""
    stable: int
    """The last stable offset: nothing from here on was read as committed."""
    everything: dict[int, str] = field(default_factory=dict)
    """Values by offset, aborted ones included, as read with read_uncommitted; control records are not to be seen."""
    committed: dict[int, str] = field(default_factory=dict)
    """Values by offset, as read with read_committed."""


@dataclass
class History:
    """One run."""

    starts: list[Start] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)
    rest: dict[Partition, Rest] = field(default_factory=dict)
    offsets: dict[tuple[str, Partition], int] = field(default_factory=dict)
    """What the groups have committed when everything is over, by group and partition; absent where nothing."""
    commits: list[Committed] = field(default_factory=list)
    """Acknowledged commits of groups without transactions, whose members begin at the group's offsets."""
    positions: list[Committed] = field(default_factory=list)
    """What the coordinator has said of these groups."""
