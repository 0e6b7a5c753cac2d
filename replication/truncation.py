"""Where a follower cuts its log so that it is a beginning of the leader's (KIP-101, KIP-279).

Both logs are split into leader epochs. The leader says where an epoch, or the latest one before it that it knows, ends
in its log; what we have beyond was never committed, since the leader was in sync when it was elected.
"""

from __future__ import annotations

from typing import NamedTuple

from storage.log.leader_epoch_cache import UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET
from storage.log.log import Log


class Truncation(NamedTuple):
    """Where to cut, and whether that is all: else the leader has to be asked again, about an earlier epoch."""

    offset: int
    is_final: bool


def truncation_for(log: Log, leaders_epoch: int, leaders_end_offset: int) -> Truncation:
    """What follows from the leader's answer that `leaders_epoch` ends at `leaders_end_offset`."""
    if leaders_end_offset == UNDEFINED_EPOCH_OFFSET:
        # It knows nothing that old. What is not known to be committed goes, as before there were leader epochs.
        return Truncation(log.high_watermark, True)
    end = log.log_end_offset
    if leaders_epoch == UNDEFINED_EPOCH:
        return Truncation(min(leaders_end_offset, end), True)
    epoch, end_offset = log.end_offset_for_epoch(leaders_epoch)
    if end_offset == UNDEFINED_EPOCH_OFFSET:
        return Truncation(min(leaders_end_offset, end), True)
    if epoch != leaders_epoch:
        # We have no records of that epoch: those of all later ones go, and then we ask about the one before it.
        return Truncation(min(end_offset, end), False)
    return Truncation(min(end_offset, leaders_end_offset, end), True)
