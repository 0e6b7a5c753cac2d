"""Changes of a follower's log: append the leader's batches, and adopt its high watermark and log start offset.

The log is then the same as the leader's, byte for byte. Truncation is in `truncation` and `fetcher`.
"""

from __future__ import annotations

from protocol.buffer import Buffer
from storage.errors import UnexpectedAppendOffsetError
from storage.log.log import Log
from storage.log_manager import LogManager


async def append(logs: LogManager, log: Log, records: Buffer) -> None:
    """Append the leader's complete batches unchanged.

    On return, the batches are on disk if flush.messages requires it: the log end offset that the leader then learns
    holds after a power cut, too. Raises what `Log.append_as_follower` raises, LogClosedError.
    """
    try:
        info = log.append_as_follower(records)
    except UnexpectedAppendOffsetError as error:
        # Records were deleted, and the leader's log now starts inside its first batch: this log must start before that.
        is_empty = log.log_end_offset == log.log_start_offset
        if not (is_empty and log.log_end_offset <= error.last_offset):
            raise
        await logs.truncate_fully_and_start_at(log, error.first_offset)
        info = log.append_as_follower(records)
    if info.flush_required:
        await logs.flush(log)


def take_over(log: Log, high_watermark: int, log_start_offset: int) -> bool:
    """Adopt the leader's high watermark and log start offset. Return True if one of them changed.

    The high watermark becomes the smaller of the leader's high watermark and the follower's log end offset. It does not
    go back if a new leader does not know yet what is committed: committed records stay committed. Raises LogDirIOError.
    """
    before = log.high_watermark, log.log_start_offset
    if high_watermark > log.high_watermark:
        log.update_high_watermark(high_watermark)
    log.increment_log_start_offset(min(log_start_offset, log.high_watermark))
    return before != (log.high_watermark, log.log_start_offset)
