"""Where a follower truncates its log so that the log is a prefix of the leader's (KIP-101, KIP-279).

Both logs are divided into leader epochs. The leader reports where an epoch, or the latest epoch before it that the
leader knows, ends in its log. What the follower has beyond was never committed, since the leader was in sync when it
was elected.
"""

from __future__ import annotations

from typing import NamedTuple

from storage.log.leader_epoch_cache import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
from storage.log.log import Log


class Truncation(NamedTuple):
    """Where to truncate. If it is not final, the leader must be asked again, about an earlier epoch."""

    offset: int
    is_final: bool


def truncation_for(log: Log, leaders_epoch: int, leaders_end_offset: int) -> Truncation:
    """Return the truncation for the leader's answer that `leaders_epoch` ends at `leaders_end_offset`."""
    if leaders_end_offset == UNDEFINED_EPOCH_OFFSET:
        # The leader knows no epoch that old. Remove what is not known to be committed, as without leader epochs.
        return Truncation(log.high_watermark, True)
    end = log.log_end_offset
    if leaders_epoch == UNDEFINED_EPOCH:
        return Truncation(min(leaders_end_offset, end), True)
    epoch, end_offset = log.end_offset_for_epoch(leaders_epoch)
    if end_offset == UNDEFINED_EPOCH_OFFSET:
        return Truncation(min(leaders_end_offset, end), True)
    if epoch != leaders_epoch:
        # This log has no records of that epoch. Remove those of all later epochs, then ask about the epoch before it.
        return Truncation(min(end_offset, end), False)
    return Truncation(min(end_offset, leaders_end_offset, end), True)
