"""Reading the indexes of a segment in another thread, so that the event loop finds them in the page cache.

An index counts as warm for a minute after its last use. The next read of a colder one, or of a batch header that is not
in the page cache, raises `ColdReadError` if it must not wait for the disk. Then `WarmUp.run` makes the same lookup in
another thread, and the read is repeated. The log may change meanwhile: the two reads share nothing but the page cache.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from protocol.errors import ProtocolError
from storage.errors import StorageError
from storage.log.segment import LogSegment

_READ_BYTES = 1 << 20


class WarmUp:
    """The reads for one range of records from `offset` on, in `segment`. Only `run` may be called in another thread."""

    def __init__(self, segment: LogSegment, offset: int, now_ms: Callable[[], int]) -> None:
        self._segment = segment
        self._view = segment.view(segment.fs.for_one_thread())
        self._offset = offset
        self._now_ms = now_ms

    def run(self) -> None:
        """Read. Errors are left to the read that follows: here, a change of the log may be their cause."""
        view = self._view
        with contextlib.suppress(OSError, StorageError, ProtocolError):
            index = view.offset_index
            for position in range(0, index.entries * index.ENTRY.size, _READ_BYTES):
                view.fs.pread(index.file.open().fd, _READ_BYTES, position)
            view.translate(self._offset)
        view.release()

    def done(self) -> None:
        """Note that the segment is warm."""
        self._segment.warm_at_ms = self._now_ms()


class ColdReadError(Exception):
    """The read would wait for the disk. Run `warm_up` in another thread, then repeat the read."""

    def __init__(self, warm_up: WarmUp) -> None:
        super().__init__()
        self.warm_up = warm_up
