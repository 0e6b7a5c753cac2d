"""What can go wrong in the log: one small hierarchy. `broker/errors.py` maps each to Kafka's error code.

Corrupt bytes in a batch and invalid records are the wire's own errors: see
`protocol.errors.CorruptRecordError` and `protocol.errors.InvalidRecordError`.
"""

from __future__ import annotations

import errno
from os import PathLike

from protocol.errors import InvalidRecordError


class StorageError(Exception):
    """Base of everything that storage/ raises by itself."""


class LogDirLockedError(StorageError):
    """Another process holds `.lock` of this log directory."""

    def __init__(self, directory: str | PathLike[str]) -> None:
        self.directory = str(directory)
        super().__init__(f"log directory {directory} is in use by another process (its .lock is held)")


class InconsistentBrokerIdError(StorageError):
    """`meta.properties` belongs to a broker with another id, or log directories disagree."""


class InconsistentClusterIdError(StorageError):
    """`meta.properties` belongs to another cluster, or log directories disagree."""


class InconsistentTopicIdError(StorageError):
    """The directory's `partition.metadata` names another topic id than the one given."""


class InvalidLogDirectoryNameError(StorageError):
    """A directory in the log dir that is not named as a partition is."""

    def __init__(self, directory: str | PathLike[str]) -> None:
        super().__init__(
            f"found directory {directory}: its name is not topic-partition nor topic-partition.id-delete; "
            "a log directory holds nothing but topic data"
        )


class CorruptFileError(StorageError):
    """A checkpoint, metadata, snapshot or index file that cannot be what was written: names path and rule."""

    def __init__(self, path: str | PathLike[str], rule: str) -> None:
        self.path = str(path)
        self.rule = rule
        super().__init__(f"{path}: {rule}")


class LogDirIOError(StorageError):
    """An operation on a log directory failed in the operating system.

    `is_disk_full`: there was no room for a write. What was there is there, and the next try may find room.
    `is_fatal`: the directory cannot be relied on any more. Where it is neither, the process lacks
    descriptors, which has nothing to do with the directory.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        cause: OSError,
        *,
        lost_writes: bool = False,
        extent: tuple[int, int] = (0, 0),
    ) -> None:
        """lost_writes: an fsync failed, so writes that had succeeded may be gone; a full disk is no excuse for that.

        extent: position and size in bytes of the write that failed, where there was one.
        """
        self.path = str(path)
        self.cause = cause
        self.extent = extent
        self.is_disk_full = cause.errno in _DISK_FULL and not lost_writes
        self.is_fatal = cause.errno not in _OUT_OF_RESOURCES and (lost_writes or not self.is_disk_full)
        super().__init__(f"{path}: {cause.strerror or cause}")


class AllLogDirsFailedError(StorageError):
    """No log directory is left that could be used: the broker stops."""


_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE})


class LoadingStoppedError(StorageError):
    """Logs were being loaded, and the broker was told to stop: nothing is wrong, and nothing was finished."""


class LogClosedError(StorageError):
    """The log was closed or is being deleted."""


class OffsetOutOfRangeError(StorageError):
    """An offset outside [log start offset, log end offset]."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        super().__init__(f"offset {offset} is outside of [{log_start_offset}, {log_end_offset}]")


class RecordTooLargeError(StorageError):
    """A batch above `max.message.bytes`."""

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(f"the record batch has {size} bytes, max.message.bytes is {limit}")


class RecordBatchTooLargeError(StorageError):
    """An append above `segment.bytes` (Kafka: RECORD_LIST_TOO_LARGE)."""

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(f"the append has {size} bytes, segment.bytes is {limit}")


class RecordValidationError(InvalidRecordError):
    """Records refused one by one. `record_errors` holds (index in the batch, reason), as Produce v8 reports
    them.
    """

    record_errors: tuple[tuple[int, str], ...]

    def __init__(self, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        self.record_errors = record_errors
        super().__init__(message)


class InvalidTimestampError(StorageError):
    """A timestamp outside of what message.timestamp.before/after.max.ms allow (Kafka: INVALID_TIMESTAMP)."""

    def __init__(self, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        self.record_errors = record_errors
        super().__init__(message)


class OffsetsOutOfOrderError(StorageError):
    """Batches given to a follower whose offsets do not rise."""


class UnexpectedAppendOffsetError(StorageError):
    """A follower was given a batch that begins below its log end offset."""

    def __init__(self, first_offset: int, last_offset: int, log_end_offset: int) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_end_offset = log_end_offset
        super().__init__(f"append begins at offset {first_offset}, the log already ends at {log_end_offset}")


class OutOfOrderSequenceError(StorageError):
    """A sequence number that does not follow the producer's last one."""


class DuplicateSequenceError(StorageError):
    """A batch that was written so long ago that its offsets are forgotten."""


class InvalidProducerEpochError(StorageError):
    """A batch of an older epoch than the last one seen from this producer id: it has been fenced."""


class InvalidTxnStateError(StorageError):
    """A non-transactional batch inside an open transaction."""


class TransactionCoordinatorFencedError(StorageError):
    """A transaction marker of an older coordinator than the last one seen."""


class CompactionAbortedError(StorageError):
    """A compaction was given up: the log was truncated, closed, renamed or deleted meanwhile. Nothing is wrong."""


class UncleanableLogError(StorageError):
    """A log that cannot be compacted: damaged data, say. It is left as it is."""
