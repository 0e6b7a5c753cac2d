"""The offsets of one log.

log start offset ≤ high watermark ≤ log end offset
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class LogOffsets:
    """Where a log starts, how far it is committed, and where it ends. The parts of a log share one such object."""

    start: int
    """The first offset that readers may ask for."""
    high_watermark: int
    """Everything below is committed: enough replicas have it."""
    end: int
    """The offset of the next record."""
