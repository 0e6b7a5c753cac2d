"""The exceptions of the log. `broker/errors.py` maps each of them to Kafka's error code.

The exceptions for corrupt bytes in a batch and for invalid records are in protocol/:
`protocol.errors.CorruptRecordError` and `protocol.errors.InvalidRecordError`.
"""

from __future__ import annotations

import errno
from os import PathLike

from protocol.errors import InvalidRecordError


class StorageError(Exception):
    """Base class of the exceptions that storage/ defines."""


class LogDirLockedError(StorageError):
    """Another process holds the lock on the `.lock` file of this log directory."""

    def __init__(self, directory: str | PathLike[str]) -> None:
        self.directory = str(directory)
        super().__init__(f"log directory {directory} is in use by another process (its .lock is held)")


class InconsistentBrokerIdError(StorageError):
    """`meta.properties` has the id of another broker, or the log directories have different broker ids."""


class InconsistentClusterIdError(StorageError):
    """`meta.properties` has the id of another cluster, or the log directories have different cluster ids."""


class InconsistentTopicIdError(StorageError):
    """The topic id in the directory's `partition.metadata` differs from the given topic id."""


class InvalidLogDirectoryNameError(StorageError):
    """The name of a directory in a log directory is not a valid partition directory name."""

    def __init__(self, directory: str | PathLike[str]) -> None:
        super().__init__(
            f"found directory {directory}: its name is not topic-partition nor topic-partition.id-delete; "
            "a log directory holds nothing but topic data"
        )


class CorruptFileError(StorageError):
    """A checkpoint, metadata, snapshot or index file is corrupt: `path` names it, `rule` is the broken rule."""

    def __init__(self, path: str | PathLike[str], rule: str) -> None:
        self.path = str(path)
        self.rule = rule
        super().__init__(f"{path}: {rule}")


class LogDirIOError(StorageError):
    """A system call on a file or directory of a log directory failed.

    `is_disk_full`: there was no room for a write. The existing data is intact, and the next attempt may succeed.
    `is_fatal`: the directory must go offline. If both are False, the process is out of file descriptors, which is
    not the directory's fault.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        cause: OSError,
        *,
        lost_writes: bool = False,
        extent: tuple[int, int] = (0, 0),
    ) -> None:
        """lost_writes: an fsync failed, so completed writes may be lost; this is fatal even if the disk is full.

        extent: position and size in bytes of the write that failed, (0, 0) if the operation was not a write.
        """
        self.path = str(path)
        self.cause = cause
        self.extent = extent
        self.is_disk_full = cause.errno in _DISK_FULL and not lost_writes
        self.is_fatal = cause.errno not in _OUT_OF_RESOURCES and (lost_writes or not self.is_disk_full)
        super().__init__(f"{path}: {cause.strerror or cause}")


class AllLogDirsFailedError(StorageError):
    """No log directory is online: the broker stops."""


_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_OUT_OF_RESOURCES = frozenset({errno.EMFILE, errno.ENFILE})


class LoadingStoppedError(StorageError):
    """The broker was stopped while it loaded its logs. This is not a failure; loading is not complete."""


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
    """A record batch is larger than `max.message.bytes`."""

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(f"the record batch has {size} bytes, max.message.bytes is {limit}")


class RecordBatchTooLargeError(StorageError):
    """A batch is larger than `segment.bytes` (Kafka: RECORD_LIST_TOO_LARGE)."""

    def __init__(self, size: int, limit: int) -> None:
        self.size = size
        self.limit = limit
        super().__init__(f"the record batch has {size} bytes, segment.bytes is {limit}")


class RecordValidationError(InvalidRecordError):
    """Some records of a batch are invalid. `record_errors` holds (index in the batch, reason), as in Produce v8."""

    record_errors: tuple[tuple[int, str], ...]

    def __init__(self, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        self.record_errors = record_errors
        super().__init__(message)


class InvalidTimestampError(StorageError):
    """A timestamp is outside the range of message.timestamp.before/after.max.ms (Kafka: INVALID_TIMESTAMP)."""

    def __init__(self, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        self.record_errors = record_errors
        super().__init__(message)


class OffsetsOutOfOrderError(StorageError):
    """A follower's append contains batches whose offsets do not increase."""


class UnexpectedAppendOffsetError(StorageError):
    """A follower's append begins below the log end offset."""

    def __init__(self, first_offset: int, last_offset: int, log_end_offset: int) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.log_end_offset = log_end_offset
        super().__init__(f"append begins at offset {first_offset}, the log already ends at {log_end_offset}")


class OutOfOrderSequenceError(StorageError):
    """A sequence number does not follow the producer's last one."""


class InvalidProducerEpochError(StorageError):
    """A batch has an older producer epoch than the last one of this producer id: the producer is fenced."""


class InvalidTxnStateError(StorageError):
    """A non-transactional batch inside an open transaction."""


class TransactionCoordinatorFencedError(StorageError):
    """A transaction marker has an older coordinator epoch than the last one seen."""


class CompactionAbortedError(StorageError):
    """A compaction was aborted because the log was truncated, closed, renamed or deleted. This is not a failure."""


class UncleanableLogError(StorageError):
    """A log cannot be compacted, because of damaged data for example. The log is unchanged."""
