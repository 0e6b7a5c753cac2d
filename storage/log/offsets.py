"""The offsets of one log.

log start offset ≤ high watermark ≤ log end offset
"""

from __future__ import annotations


class LogOffsets:
    """Where a log starts, how far it is committed, and where it ends: one object that the parts of a log share."""

    __slots__ = ("end", "high_watermark", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        """The first offset that readers may ask for."""
        self.high_watermark = start
        """Everything below is committed: enough replicas have it."""
        self.end = end
        """The offset of the next record."""
