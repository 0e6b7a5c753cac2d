"""The findings of the checker: guarantees of Kafka that a history contradicts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from support.transfers.history import Partition


class Kind(Enum):
    """The kinds of anomalies; `support.transfers.checker` explains each of them."""

    LOST_WRITE = "lost write"
    DUPLICATE = "duplicate"
    INVENTED_VALUE = "invented value"
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    REORDERED_WRITES = "reordered writes"
    ABORTED_READ = "aborted read"
    PRECOMMITTED_READ = "precommitted read"
    TORN_TRANSACTION = "torn transaction"
    ZOMBIE = "zombie"
    HANGING_TRANSACTION = "hanging transaction"
    LOST_TRANSFER = "lost transfer"
    REPEATED_TRANSFER = "repeated transfer"
    POLL_SKIP = "poll skip"
    NONMONOTONIC_POLL = "nonmonotonic poll"
    POLL_RESET = "poll reset"
    UNFINISHED_READ = "unfinished read"


@dataclass(frozen=True)
class Anomaly:
    """One finding, with everything that is needed to look for it in the journals."""

    kind: Kind
    partition: Partition | None
    offsets: tuple[int, ...]
    values: tuple[str, ...]
    operations: tuple[str, ...]
    """Transactions (client/number and outcome), readers, groups."""
    why: str

    def __str__(self) -> str:
        where = "" if self.partition is None else f" in {self.partition[0]}-{self.partition[1]}"
        parts = (("offsets", self.offsets), ("values", self.values), ("operations", self.operations))
        found = "; ".join(f"{name} {', '.join(map(str, some))}" for name, some in parts if some)
        return f"{self.kind.value}{where}: {self.why} [{found}]"


def anomaly(
    kind: Kind,
    why: str,
    partition: Partition | None = None,
    *,
    offsets: Iterable[int] = (),
    values: Iterable[str] = (),
    operations: Iterable[object] = (),
) -> Anomaly:
    """An anomaly; operations are shown as text."""
    return Anomaly(kind, partition, tuple(offsets), tuple(values), tuple(map(str, operations)), why)
