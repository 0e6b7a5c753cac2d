"""What a follower does to its log: it appends what the leader sent, and takes over what the leader says of its own.

The log is then the leader's, byte for byte; truncation is in `truncation` and `fetcher`.
"""

from __future__ import annotations

from protocol.buffer import Buffer
from storage.errors import UnexpectedAppendOffsetError
from storage.log.append import LogAppendInfo
from storage.log.log import Log
from storage.log_manager import LogManager


async def append(logs: LogManager, log: Log, records: Buffer) -> LogAppendInfo | None:
    """Append the leader's batches as they are; None where there was no whole one.

    On return they are on disk where flush.messages asks for that: what the leader then hears of us is true after a
    power cut, too. Raises what `Log.append_as_follower` raises, LogClosedError.
    """
    try:
        info = log.append_as_follower(records)
    except UnexpectedAppendOffsetError as error:
        # Records were deleted, and the leader's log now starts within its first batch: ours has to begin before that.
        is_empty = log.log_end_offset == log.log_start_offset
        if not (is_empty and error.first_offset < log.log_end_offset <= error.last_offset):
            raise
        await logs.truncate_fully_and_start_at(log, error.first_offset)
        info = log.append_as_follower(records)
    if info.flush_required:
        await logs.flush(log)
    return info if info.first_offset >= 0 else None


def take_over(log: Log, high_watermark: int, log_start_offset: int) -> bool:
    """The leader says how far it has committed, and where its log starts. True if that is news.

    Our high watermark is the leader's or our end, whichever is less. It does not go back where a new leader does not
    know yet what was committed before it: what is committed stays so. Raises LogDirIOError.
    """
    before = log.high_watermark, log.log_start_offset
    if high_watermark > log.high_watermark:
        log.update_high_watermark(high_watermark)
    log.increment_log_start_offset(min(log_start_offset, log.high_watermark))
    return before != (log.high_watermark, log.log_start_offset)
