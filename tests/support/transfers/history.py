"""What happened in one run, as the clients tell it: operations with what was asked, what was answered and when.

Times are nanoseconds of the machine's monotonic clock, which all processes share. A value is written once in a whole
run: it names its producer, its transaction and its number, so whoever reads it knows where it comes from.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

Partition = tuple[str, int]


class Outcome(Enum):
    """What a client knows of an operation's end."""

    OK = "ok"
    """It was told that it is done."""
    FAIL = "fail"
    """It cannot have been done: an abort, or a commit that was never asked for."""
    UNKNOWN = "unknown"
    """It may have been done or not, now or later: no answer, an error, a death."""


class Record(NamedTuple):
    """What a reader got."""

    partition: Partition
    offset: int
    value: str


@dataclass
class Write:
    """One record on its way."""

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

    def __str__(self) -> str:
        return f"{self.client}/{self.number} ({self.outcome.value})"


class Seek(NamedTuple):
    """A reader goes on from this offset."""

    partition: Partition
    offset: int


class Poll(NamedTuple):
    """A reader got records."""

    told_ns: int
    records: list[Record]


class End(NamedTuple):
    """A reader was told that nothing comes before this offset."""

    partition: Partition
    offset: int


class Reset(NamedTuple):
    """A reader was told that the offset at which it stands does not exist."""

    partition: Partition


@dataclass
class Reader:
    """One consumer without a group, and what it was told in the order in which it was told."""

    name: str
    committed: bool
    """Isolation level: read_committed or read_uncommitted."""
    events: list[Seek | Poll | End | Reset] = field(default_factory=list)
    follows: bool = True
    """Whether it has to have come to the end of every partition that it ever read."""


@dataclass
class Rest:
    """What is in a partition when everything is over."""

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
