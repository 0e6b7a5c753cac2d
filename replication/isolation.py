"""How far into a log a reader may see."""

from __future__ import annotations

from enum import IntEnum

from storage.log.log import Log


class Isolation(IntEnum):
    """The first two are the protocol's."""

    READ_UNCOMMITTED = 0  # to the high watermark
    READ_COMMITTED = 1  # to the last stable offset
    LOG_END = 2  # followers

    def visible_end(self, log: Log) -> int:
        """The first offset that such a reader may not see."""
        if self is Isolation.READ_UNCOMMITTED:
            return log.high_watermark
        if self is Isolation.READ_COMMITTED:
            return log.last_stable_offset
        return log.log_end_offset
