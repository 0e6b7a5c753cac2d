"""What a verification of log files found: problems with their place, and what was looked at.

An error is something that a broker may answer wrongly for, or that only a recovery can put right. A warning is
something unusual that harms nothing: leftovers that the next start removes, files that do not belong, what may
be meant so.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

_MOST_PER_FILE = 20


class Severity(StrEnum):
    """How bad a problem is."""

    ERROR = "error"
    WARNING = "warning"


class Problem(NamedTuple):
    """One thing that is wrong: in which file or directory (`path`), at which byte and offset where that can be said."""

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
    """What the rest of a log directory has to agree with, and a repair has to know, of one partition.

    first_offset: base offset of the first segment. log_end_offset: behind the last batch that was found; that is the
    log's end if `whole`, every segment could be read to its end. cut_offset: where a recovery would cut the log; None:
    nowhere. topic_id: None if unknown.
    """

    first_offset: int
    log_end_offset: int
    whole: bool
    cut_offset: int | None
    topic_id: bytes | None


class VerificationReport:
    """The problems found so far, and counts of what was read.

    Of one file at most twenty problems are kept, so that a damaged gigabyte does not become a gigabyte of
    report; `left_out` counts the others by path. `errors` and `warnings` count all.
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
        """Note something that is broken."""
        self.errors += 1
        self._add(Problem(Severity.ERROR, path, message, position, offset))

    def warning(self, path: str, message: str, *, position: int | None = None, offset: int | None = None) -> None:
        """Note something that is odd."""
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
        """Tell whoever watches that the counts have moved."""
        if self._on_progress is not None:
            self._on_progress(self)

    @property
    def partitions(self) -> int:
        return len(self.facts)
