"""Log lines that anyone who reaches a port can cause, with a limit on their number: they must not fill the disk."""

from __future__ import annotations

import logging
from collections.abc import Callable

WINDOW_S = 10.0
LINES_IN_A_WINDOW = 10


class LimitedLines:
    """Logs lines of one kind at level INFO, and the number of those that were too many."""

    def __init__(self, logger: logging.Logger, now_s: Callable[[], float], more: Callable[[int], str]) -> None:
        """more: returns the line that tells how many lines were left out."""
        self._logger = logger
        self._now_s = now_s
        self._more = more
        self._window_began_s = now_s()
        self._lines = 0
        self._silent = 0

    def add(self, text: str, *values: object) -> None:
        """Log one line, or count it for a later line. text, values: as for `Logger.info`."""
        now_s = self._now_s()
        if now_s - self._window_began_s >= WINDOW_S:
            self._window_began_s, self._lines = now_s, 0
            if self._silent:
                self._logger.info("%s", self._more(self._silent))
                self._silent = 0
        if self._lines >= LINES_IN_A_WINDOW:
            self._silent += 1
            return
        self._lines += 1
        self._logger.info(text, *values)
