"""The clocks of brokers, which can be wrong on command."""

from __future__ import annotations

from collections.abc import Callable

from broker.broker import wall_clock_ms


class SkewedClock:
    """The clock of one broker, over all its runs."""

    def __init__(self, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        """now_ms: the clock that is right, in ms since 1970."""
        self.skew_ms = 0
        """How much the clock is ahead."""
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """Milliseconds since 1970, as this broker believes."""
        return self._now_ms() + self.skew_ms
