"""A line on standard error that shows the progress of a long command, if standard error is a terminal."""

import sys
import time

INTERVAL_S = 0.2


class Progress:
    """Shows a count and its rate a few times a second; shows nothing in the first second."""

    def __init__(self, unit: str, total: int | None = None, *, enabled: bool = True) -> None:
        self._unit = unit
        self._total = total
        self._shown = False
        self._started = time.monotonic()
        self._last = self._started + 1 - INTERVAL_S
        self._enabled = enabled and sys.stderr.isatty()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def update(self, count: int) -> None:
        """Show the count, unless the last one was shown less than INTERVAL_S ago."""
        if not self._enabled:
            return
        now = time.monotonic()
        if now - self._last < INTERVAL_S:
            return
        self._last = now
        rate = count / (now - self._started)
        of = f" of {self._total:,}" if self._total is not None else ""
        sys.stderr.write(f"\r\x1b[K{count:,}{of} {self._unit}, {rate:,.0f}/s")
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        """Erase the line."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False
