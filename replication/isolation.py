"""How far a reader may read into a log."""

from __future__ import annotations

from enum import IntEnum

from storage.log.log import Log


class Isolation(IntEnum):
    """The first two are the protocol's isolation levels."""

    READ_UNCOMMITTED = 0  # to the high watermark
    READ_COMMITTED = 1  # to the last stable offset
    LOG_END = 2  # followers

    def visible_end(self, log: Log) -> int:
        """Return the first offset that the reader may not see."""
        if self is Isolation.READ_UNCOMMITTED:
            return log.high_watermark
        if self is Isolation.READ_COMMITTED:
            return log.last_stable_offset
        return log.log_end_offset
