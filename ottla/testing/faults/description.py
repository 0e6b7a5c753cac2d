"""The descriptions of faults: the base classes of the dataclasses that the verbs have.

A field of a description is an option of its verb in Python, in the HTTP API and on the command line. So its type is
str, int, float or bool, or one of these or None, or a Literal of strings; and it has a help text (`option`).
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

from ottla.testing.faults.errors import FaultError

HELP = "help"
"""The key of a field's help text in its metadata."""
LIMITS = ("count", "for_s")
"""The options that limit a fault: they are shown last."""
TIMES = ("for_s", "delay_s", "offset_s")
"""The options that are times in seconds."""
MAX_TIME_S = 1e9
"""The longest time, 31 years: a clock that is wrong by less has a date after 1970, and every wait can last so long."""


def option(text: str, default: Any = dataclasses.MISSING) -> Any:
    """Return a field of a description. text: its help, one sentence. Without a default, the option is required."""
    return dataclasses.field(default=default, metadata={HELP: text})


@dataclass(frozen=True, kw_only=True)
class Description:
    """A description of something that is over at once, such as a move of a leader.

    A subclass checks its own fields in `__post_init__`, and raises FaultError.
    """

    def __post_init__(self) -> None:
        """Check that numbers are finite, and that no time is longer than the system can wait. Raises FaultError."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not isinstance(value, float):
                continue
            if not math.isfinite(value):
                raise FaultError(f"{field.name}={value}: must be a finite number")
            if field.name in TIMES and abs(value) > MAX_TIME_S:
                raise FaultError(f"{field.name}={value:g}: must be at most {MAX_TIME_S:,.0f} seconds")


@dataclass(frozen=True, kw_only=True)
class Fault(Description):
    """A description of a fault that stays in effect until it is healed."""

    for_s: float | None = option("Heal the fault after this many seconds.", None)

    def __post_init__(self) -> None:
        """Check the limit. Raises FaultError."""
        super().__post_init__()
        if self.for_s is not None and not self.for_s > 0:
            raise FaultError(f"for_s={self.for_s:g}: must be above 0")


@dataclass(frozen=True, kw_only=True)
class CountedFault(Fault):
    """A description of a fault that takes effect a number of times."""

    count: int | None = option("Heal the fault when it has taken effect this many times.", None)

    def __post_init__(self) -> None:
        """Check the limits. Raises FaultError."""
        super().__post_init__()
        check_count(self.count)


def check_count(count: int | None) -> None:
    """Raise FaultError for a count below 1."""
    if count is not None and count < 1:
        raise FaultError(f"count={count}: must be 1 or more")
