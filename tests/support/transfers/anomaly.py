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
    UNSEEN = "unseen"
    NONMONOTONIC_SEND = "nonmonotonic send"
    INT_NONMONOTONIC_SEND = "int-nonmonotonic send"
    ABORTED_READ = "aborted read"
    PRECOMMITTED_READ = "precommitted read"
    TORN_TRANSACTION = "torn transaction"
    ZOMBIE = "zombie"
    HANGING_TRANSACTION = "hanging transaction"
    LOST_TRANSFER = "lost transfer"
    REPEATED_TRANSFER = "repeated transfer"
    LOST_COMMIT = "lost commit"
    POLL_SKIP = "poll skip"
    NONMONOTONIC_POLL = "nonmonotonic poll"
    INT_POLL_SKIP = "int-poll-skip"
    INT_NONMONOTONIC_POLL = "int-nonmonotonic-poll"
    POLL_RESET = "poll reset"
    UNFINISHED_READ = "unfinished read"
    G1C = "G1c"
    G0 = "G0"
    INT_SEND_SKIP = "int-send-skip"


PERMITTED = frozenset({Kind.G0, Kind.INT_SEND_SKIP})
"""What Kafka does not promise to prevent: counted, and no failure."""


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
