"""What an interrupted broker left in a log's directory: `.deleted` and `.cleaned` files, and swaps to finish.

`.deleted` and `.cleaned` files are removed. A `.swap` file is a finished compaction that lacks its last step: it
replaces the segments that it covers, unless a `.cleaned` file below it shows that the compaction was not finished.
"""

from __future__ import annotations

import logging
import re

from storage.log.batch_scan import iter_headers
from storage.log.segment import DELETED_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES
from storage.log.segment_files import SegmentFiles

CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

_SEGMENT_FILE = re.compile(r"(\d{20})(\.[a-z]+)(\.[a-z]+)?")

logger = logging.getLogger(__name__)


class Leftovers:
    """The leftovers in the directory of one log."""

    def __init__(self, segment_files: SegmentFiles) -> None:
        self._segment_files = segment_files
        self._fs = segment_files.log_files.fs
        self._directory = str(segment_files.log_files.directory)
        self._changed = False

    def clear(self, names: list[str]) -> bool:
        """Remove leftovers and finish swaps. Return whether the names have changed. Raises OSError.

        names: of all files in the directory.
        """
        found = self._found(names)
        cleaned = [base for base, suffix in found if suffix.endswith(CLEANED_SUFFIX)]
        first_cleaned = min(cleaned, default=None)
        swaps = []
        for base, suffix in found:
            if suffix.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")):
                self._remove(base, suffix)
            elif suffix.endswith(SWAP_SUFFIX):
                if first_cleaned is not None and base >= first_cleaned:
                    self._remove(base, suffix)
                else:
                    swaps.append((base, suffix))
        if swaps:
            self._finish_swap(swaps)
        return self._changed or bool(swaps)

    def _found(self, names: list[str]) -> list[tuple[int, str]]:
        """(base offset, suffixes) of every file with the name of a segment's file, sorted. Removes other leftovers."""
        found = []
        for name in names:
            match = _SEGMENT_FILE.fullmatch(name)
            if match:
                found.append((int(match[1]), match[2] + (match[3] or "")))
            elif name.endswith((DELETED_SUFFIX, ".tmp")):
                self._fs.remove(f"{self._directory}/{name}")
                self._changed = True
        return sorted(found)

    def _remove(self, base: int, suffix: str) -> None:
        self._fs.remove(f"{self._directory}/{base:020d}{suffix}")
        self._changed = True

    def _finish_swap(self, swaps: list[tuple[int, str]]) -> None:
        """Replace the segments that finished compacted segments cover.

        While a `.log.swap` file exists, the next start repeats this. So that file loses its suffix only when the old
        segments are gone, and before its indexes do.
        """
        first, end = None, 0
        replaced = set()
        for base, suffix in swaps:
            if suffix == LOG_SUFFIX + SWAP_SUFFIX:
                segment = self._segment_files.open(base, suffix=SWAP_SUFFIX)
                last = base - 1
                for header in iter_headers(segment.file, 0, segment.size):
                    last = header.last_offset
                segment.release()
                replaced.add(base)
                first = base if first is None else min(first, base)
                end = max(end, last + 1)
        for base, suffix in self._found(self._segment_files.log_files.names()):
            if suffix in SEGMENT_SUFFIXES and first is not None and (first <= base < end or base in replaced):
                self._remove(base, suffix)
        for base, suffix in sorted(swaps, key=lambda swap: (swap[0], swap[1] != LOG_SUFFIX + SWAP_SUFFIX)):
            path = f"{self._directory}/{base:020d}{suffix}"
            self._fs.rename(path, path.removesuffix(SWAP_SUFFIX))
        logger.info("%s: finished the replacement of segments [%s, %d)", self._directory, first, end)


def segments_among(names: list[str]) -> dict[int, set[str]]:
    """Base offset → suffixes of the segment files among the names in a log's directory."""
    files: dict[int, set[str]] = {}
    for name in names:
        if name[20:] in SEGMENT_SUFFIXES and name[:20].isdigit():
            files.setdefault(int(name[:20]), set()).add(name[20:])
    return files
