"""The events of a run in order, as one hash: two runs of a seed must have the same hash."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

KEPT = 120


class Trace:
    """A hash over all events, the last of them in words, and all of them in a file where one is given."""

    def __init__(self, now_s: Callable[[], float], path: Path | None = None) -> None:
        self.hash = 0
        self.events = 0
        self.last: deque[str] = deque(maxlen=KEPT)
        self._now_s = now_s
        self._file: TextIO | None = None if path is None else path.open("w")

    def note(self, *words: object) -> None:
        """Record an event."""
        text = " ".join((f"{self._now_s():.6f}", *map(str, words)))
        self.hash = zlib.crc32(text.encode(), self.hash)
        self.events += 1
        if self._file is not None:
            self._file.write(text + "\n")
            self._file.flush()

    def tell(self, *words: object) -> None:
        """Record an event that helps to explain a failure."""
        self.note(*words)
        self.remark(*words)

    def remark(self, *words: object) -> None:
        """Words for the reader alone: what brokers log depends on the level that was asked for."""
        self.last.append(f"{self._now_s():10.3f}  " + " ".join(map(str, words)))
