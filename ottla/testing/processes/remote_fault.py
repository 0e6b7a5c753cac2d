"""A fault within brokers that are processes, as the cluster describes it to them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from ottla.testing.faults.counter import SharedCounter


@dataclass(frozen=True)
class RemoteFault:
    """One fault."""

    id: int
    """The same in all processes."""
    description: dict[str, Any]
    """The JSON object with the verb and its options, without a limit of time, which the cluster keeps."""
    targets: list[int]
    """The brokers within which it acts."""
    brokers: list[int]
    """All brokers of the cluster."""
    uses: str
    """The file that counts its uses."""
    count: int | None
    """How many uses there are; None: no limit."""

    @property
    def counter(self) -> SharedCounter:
        """The counter of its uses, for all processes."""
        return SharedCounter(Path(self.uses), self.count)

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Return what `as_json` returned."""
        return cls(**values)
