"""The mapping of Ottla's exceptions to Kafka's error codes; no other module maps them.

Each package has its own exception hierarchy. An exception that is not listed here is a bug and becomes
UNKNOWN_SERVER_ERROR. A test checks that every exception class of the packages below has a row.
"""

from __future__ import annotations

import logging

import protocol.errors
import registry.errors
import replication.errors
import storage.errors
from protocol.error_codes import ErrorCode

logger = logging.getLogger(__name__)


class BrokerError(Exception):
    """Base of the exceptions that broker/ raises to answer a request; each has its error code."""

    code = ErrorCode.UNKNOWN_SERVER_ERROR


class RequestError(BrokerError):
    """A request is refused with an error code and a message for the client."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class NotControllerError(BrokerError):
    """This broker is not the controller, or is no longer the controller when it should answer."""

    code = ErrorCode.NOT_CONTROLLER


class BrokerStartError(Exception):
    """The broker cannot start; the message says what to do."""


CODES: dict[type[Exception], ErrorCode] = {
    # protocol/
    protocol.errors.CorruptRecordError: ErrorCode.CORRUPT_MESSAGE,
    protocol.errors.DecodeError: ErrorCode.INVALID_REQUEST,
    protocol.errors.EncodeError: ErrorCode.UNSUPPORTED_VERSION,
    protocol.errors.InvalidRecordError: ErrorCode.INVALID_RECORD,
    protocol.errors.UnsupportedCompressionError: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    protocol.errors.UnsupportedVersionError: ErrorCode.UNSUPPORTED_VERSION,
    # storage/
    storage.errors.AllLogDirsFailedError: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.errors.CorruptFileError: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.errors.InconsistentTopicIdError: ErrorCode.INCONSISTENT_TOPIC_ID,
    storage.errors.InvalidProducerEpochError: ErrorCode.INVALID_PRODUCER_EPOCH,
    storage.errors.InvalidTimestampError: ErrorCode.INVALID_TIMESTAMP,
    storage.errors.InvalidTxnStateError: ErrorCode.INVALID_TXN_STATE,
    storage.errors.LogClosedError: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.errors.LogDirIOError: ErrorCode.KAFKA_STORAGE_ERROR,
    storage.errors.OffsetOutOfRangeError: ErrorCode.OFFSET_OUT_OF_RANGE,
    storage.errors.OutOfOrderSequenceError: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    storage.errors.RecordBatchTooLargeError: ErrorCode.RECORD_LIST_TOO_LARGE,
    storage.errors.RecordTooLargeError: ErrorCode.MESSAGE_TOO_LARGE,
    storage.errors.RecordValidationError: ErrorCode.INVALID_RECORD,
    storage.errors.TransactionCoordinatorFencedError: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    # replication/
    replication.errors.CommitTimedOutError: ErrorCode.REQUEST_TIMED_OUT,
    replication.errors.DeletionTimedOutError: ErrorCode.REQUEST_TIMED_OUT,
    replication.errors.FencedLeaderEpochError: ErrorCode.FENCED_LEADER_EPOCH,
    replication.errors.InconsistentTopicIdError: ErrorCode.INCONSISTENT_TOPIC_ID,
    replication.errors.LogDirNotFoundError: ErrorCode.LOG_DIR_NOT_FOUND,
    replication.errors.LogDirFullError: ErrorCode.KAFKA_STORAGE_ERROR,
    replication.errors.LogDirOfflineError: ErrorCode.KAFKA_STORAGE_ERROR,
    replication.errors.NotEnoughReplicasAfterAppendError: ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    replication.errors.NotEnoughReplicasError: ErrorCode.NOT_ENOUGH_REPLICAS,
    replication.errors.NotLeaderOrFollowerError: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    replication.errors.OffsetNotAvailableError: ErrorCode.OFFSET_NOT_AVAILABLE,
    replication.errors.ReplicaNotAvailableError: ErrorCode.REPLICA_NOT_AVAILABLE,
    replication.errors.StaleBrokerEpochError: ErrorCode.STALE_BROKER_EPOCH,
    replication.errors.StaleControllerEpochError: ErrorCode.STALE_CONTROLLER_EPOCH,
    replication.errors.UnknownLeaderEpochError: ErrorCode.UNKNOWN_LEADER_EPOCH,
    replication.errors.TopicNameTooLongError: ErrorCode.INVALID_TOPIC_EXCEPTION,
    replication.errors.UnknownTopicIdError: ErrorCode.UNKNOWN_TOPIC_ID,
    replication.errors.UnknownTopicOrPartitionError: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    # registry/: after these errors a write may or may not have been applied; the client must check or retry
    registry.errors.ConnectionLossError: ErrorCode.REQUEST_TIMED_OUT,
    registry.errors.SessionExpiredError: ErrorCode.NOT_CONTROLLER,
    registry.errors.RegistryClosedError: ErrorCode.NOT_CONTROLLER,
    registry.errors.DataTooLargeError: ErrorCode.INVALID_REQUEST,  # settings or an assignment of more than a megabyte
    registry.errors.RegistryFullError: ErrorCode.KAFKA_STORAGE_ERROR,
    registry.errors.RegistryStorageError: ErrorCode.KAFKA_STORAGE_ERROR,
    registry.errors.ZnodeFormatError: ErrorCode.UNKNOWN_SERVER_ERROR,  # damage that an administrator must inspect
}

OSERROR_CODE = ErrorCode.KAFKA_STORAGE_ERROR
"""The code for errors of the operating system, which come from accesses to the log."""


def code_of(error: BaseException) -> ErrorCode:
    """Return Kafka's code for an exception; UNKNOWN_SERVER_ERROR if it is not mapped."""
    if isinstance(error, BrokerError):
        return error.code
    for cls in type(error).__mro__:
        code = CODES.get(cls)
        if code is not None:
            return code
    return OSERROR_CODE if isinstance(error, OSError) else ErrorCode.UNKNOWN_SERVER_ERROR


def unexpected_code(error: Exception, what: str) -> ErrorCode:
    """Return `code_of(error)`, and log the exception if it is not mapped. For errors of a part of a request."""
    code = code_of(error)
    if code is ErrorCode.UNKNOWN_SERVER_ERROR:
        logger.error("%s failed unexpectedly", what, exc_info=error)
    return code
