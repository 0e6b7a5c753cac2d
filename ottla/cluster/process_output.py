"""The output of several processes on one terminal: each line begins with the name of its process.

A quiet output leaves out a broker's log lines of level INFO and DEBUG, and the lines after them that are not log lines
(the rest of a message, a traceback).
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Protocol

_LOG_LINE = re.compile(r'(?:\d{4}-\d\d-\d\d[ T][\d:,.]+ |\{"timestamp": "[^"]*", "level": ")(?P<level>[A-Z]+)[ "]')
_MINOR = ("DEBUG", "INFO")
_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)  # SGR codes, one for each process in turn


class Output(Protocol):
    """Where the lines of processes go."""

    def said(self, name: str, line: str) -> None:
        """Print a line of a process's output."""

    def tell(self, name: str, line: str) -> None:
        """Print a line about a process."""


class ProcessOutput:
    """Prints the lines of processes on standard error."""

    def __init__(self, names: Sequence[str], *, quiet: bool = False) -> None:
        """`names` are the names of all processes; they set the width of the first column."""
        self._width = max(map(len, names), default=0)
        self._quiet = quiet
        coloured = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        self._colours = {name: _COLOURS[at % len(_COLOURS)] if coloured else None for at, name in enumerate(names)}
        self._is_left_out: dict[str, bool] = {}

    def said(self, name: str, line: str) -> None:
        """Print a line of a process's output, unless it is left out."""
        if match := _LOG_LINE.match(line):
            self._is_left_out[name] = self._quiet and match["level"] in _MINOR
        if not self._is_left_out.get(name, False):
            self.tell(name, line)

    def tell(self, name: str, line: str) -> None:
        """Print a line about a process, even if the output is quiet."""
        front = f"{name:<{self._width}} |"
        if (colour := self._colours.get(name)) is not None:
            front = f"\x1b[{colour}m{front}\x1b[0m"
        print(f"{front} {line}", file=sys.stderr, flush=True)
