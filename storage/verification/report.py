"""The report of a verification of log files: problems with their positions, and counts of what was read.

An error may cause wrong answers of a broker, or needs a recovery. A warning is unusual but harmless: leftovers that
the next start removes, unknown files, and states that may be intended.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

_MOST_PER_FILE = 20


class Severity(StrEnum):
    """The severity of a problem."""

    ERROR = "error"
    WARNING = "warning"


class Problem(NamedTuple):
    """One problem in the file or directory `path`; `position` (byte) and `offset` are None if they are not known."""

    severity: Severity
    path: str
    message: str
    position: int | None = None
    offset: int | None = None

    def __str__(self) -> str:
        where = f" at byte {self.position}" if self.position is not None else ""
        where += f" (offset {self.offset})" if self.offset is not None else ""
        return f"{self.severity} in {self.path}{where}: {self.message}"


class PartitionFacts(NamedTuple):
    """The facts about a partition that the checks of the log directory and the repair use.

    first_offset: base offset of the first segment. log_end_offset: the offset after the last batch that was found; it
    is the log end offset only if `whole`. whole: all segments were read to their end. cut_offset: the offset at which a
    recovery would truncate the log; None if it would not. topic_id: None if unknown.
    """

    first_offset: int
    log_end_offset: int
    whole: bool
    cut_offset: int | None
    topic_id: bytes | None


class VerificationReport:
    """The problems found so far, and counts of what was read.

    At most 20 problems per file are kept, so that a large damaged file does not fill the memory; `left_out` counts the
    others by path. `errors` and `warnings` count all problems.
    """

    def __init__(self, on_progress: Callable[[VerificationReport], None] | None = None) -> None:
        self.problems: list[Problem] = []
        self.left_out: dict[str, int] = {}
        self.errors = 0
        self.warnings = 0
        self.facts: dict[str, PartitionFacts] = {}  # by directory
        self.segments = 0
        self.batches = 0
        self.records = 0
        self.bytes = 0
        self._per_path: dict[str, int] = {}
        self._on_progress = on_progress

    def error(self, path: str, message: str, *, position: int | None = None, offset: int | None = None) -> None:
        """Add an error."""
        self.errors += 1
        self._add(Problem(Severity.ERROR, path, message, position, offset))

    def warning(self, path: str, message: str, *, position: int | None = None, offset: int | None = None) -> None:
        """Add a warning."""
        self.warnings += 1
        self._add(Problem(Severity.WARNING, path, message, position, offset))

    def _add(self, problem: Problem) -> None:
        known = self._per_path.get(problem.path, 0)
        self._per_path[problem.path] = known + 1
        if known < _MOST_PER_FILE:
            self.problems.append(problem)
        else:
            self.left_out[problem.path] = self.left_out.get(problem.path, 0) + 1

    def progress(self) -> None:
        """Call `on_progress`, if set."""
        if self._on_progress is not None:
            self._on_progress(self)

    @property
    def partitions(self) -> int:
        return len(self.facts)
