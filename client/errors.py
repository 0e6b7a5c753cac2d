"""Errors of the client.

`KafkaError` is the root of two families:

- errors on this side of the wire (a lost connection, a timeout, a refused option), written out below;
- errors that a broker answers: one class for each error code, named after Kafka's own exception with Error for
  Exception (`UnknownTopicOrPartitionError`).

The classes of the second family are made from `protocol.error_codes.ErrorCode` on first use: `from client.errors
import NotLeaderOrFollowerError` works for every one of them. So the start of a broker, which needs only the first
family, does not pay for 127 classes.
"""

from typing import TYPE_CHECKING, ClassVar

from protocol.error_codes import ErrorCode, code_name, known_code

if TYPE_CHECKING:
    from collections.abc import Sequence

    from client.consumer.fetched import ConsumerRecord

# Error codes whose exception has another name in Kafka.
_NAMES = {
    "CORRUPT_MESSAGE": "CorruptRecord",
    "MESSAGE_TOO_LARGE": "RecordTooLarge",
    "STALE_CONTROLLER_EPOCH": "ControllerMoved",
    "NETWORK_EXCEPTION": "Network",
    "INVALID_TOPIC_EXCEPTION": "InvalidTopic",
    "RECORD_LIST_TOO_LARGE": "RecordBatchTooLarge",
    "TOPIC_AUTHORIZATION_FAILED": "TopicAuthorization",
    "GROUP_AUTHORIZATION_FAILED": "GroupAuthorization",
    "CLUSTER_AUTHORIZATION_FAILED": "ClusterAuthorization",
    "TOPIC_ALREADY_EXISTS": "TopicExists",
    "INVALID_CONFIG": "InvalidConfiguration",
    "OUT_OF_ORDER_SEQUENCE_NUMBER": "OutOfOrderSequence",
    "DUPLICATE_SEQUENCE_NUMBER": "DuplicateSequence",
    "INVALID_PRODUCER_ID_MAPPING": "InvalidPidMapping",
    "INVALID_TRANSACTION_TIMEOUT": "InvalidTxnTimeout",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "TransactionalIdAuthorization",
    "KAFKA_STORAGE_ERROR": "KafkaStorage",
    "SASL_AUTHENTICATION_FAILED": "SaslAuthentication",
    "DELEGATION_TOKEN_AUTH_DISABLED": "DelegationTokenDisabled",
    "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED": "UnsupportedByAuthentication",
    "DELEGATION_TOKEN_AUTHORIZATION_FAILED": "DelegationTokenAuthorization",
    "NON_EMPTY_GROUP": "GroupNotEmpty",
    "UNKNOWN_SERVER_ERROR": "UnknownServer",
    # Kafka's TimeoutException would hide Python's TimeoutError.
    "REQUEST_TIMED_OUT": "RequestTimedOut",
    "PRINCIPAL_DESERIALIZATION_FAILURE": "PrincipalDeserialization",
}


class KafkaError(Exception):
    """Root of all exceptions that the client raises.

    `retriable` says whether the same request may succeed later without any intervention.
    `code` is the broker's error code; None for an error on this side of the wire.
    """

    retriable: ClassVar[bool] = False
    code: ClassVar[ErrorCode | None] = None


class ConnectionLostError(KafkaError):
    """The connection was lost before the answer arrived; whether the request was carried out is unknown."""

    retriable = True

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(f"connection to {host}:{port} lost: {reason}")
        self.host = host
        self.port = port
        self.reason = reason


class BrokerUnreachableError(ConnectionLostError):
    """The connection could not be opened."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(host, port, reason)
        self.args = (f"no broker answers at {host}:{port}: {reason}",)


class BrokerUnknownError(ConnectionLostError):
    """No address of the broker is known: it is not alive, or the metadata is old."""

    def __init__(self, name: str) -> None:
        """name: such as "broker 3"."""
        super().__init__("", -1, "no address is known")
        self.args = (f"no address of {name} is known",)


class NoBrokersAvailableError(KafkaError):
    """None of the bootstrap servers and known brokers answered; the message names each with the reason."""

    retriable = True


class AuthenticationError(KafkaError):
    """This client and a broker could not prove to each other who they are: TLS or the SASL login failed.

    It is not retriable: only another configuration, on one of the two sides, can help. The classes of the error codes
    SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM and ILLEGAL_SASL_STATE derive from it.
    """


class SslAuthenticationError(AuthenticationError):
    """The TLS handshake failed: one side does not trust the certificate of the other, the certificate has another host
    name, or they have no common protocol or cipher.
    """


class MalformedResponseError(ConnectionLostError):
    """The answer is invalid (size, correlation id or content); the connection was closed."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(host, port, reason)
        self.args = (f"malformed answer from {host}:{port}: {reason}",)


class RequestTimeoutError(KafkaError):
    """No answer arrived within the request timeout; whether the request was carried out is unknown."""

    retriable = True


class UnsupportedApiError(KafkaError):
    """The broker and this client have no common version of an API."""


class ApiNotServedError(UnsupportedApiError):
    """The broker does not serve any version of an API."""

    def __init__(self, broker: str, api: str) -> None:
        super().__init__(f"{broker} does not serve {api}")
        self.api = api


class InvalidOptionError(KafkaError):
    """An option is unknown or its value breaks a rule; the message names the option, the value and the rule."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(message)
        self.option = option


class ClosedError(KafkaError):
    """The producer, reader or admin has been closed."""


class BufferFullError(KafkaError):
    """The buffer memory is full of records that wait for a broker."""

    retriable = True


class DeliveryTimeoutError(KafkaError):
    """A record was not acknowledged within `delivery_timeout_ms`; the message contains the last reason."""


class NoOffsetError(KafkaError):
    """A partition has no offset to start from and `auto_offset_reset` is "none"."""


class LogTruncationError(KafkaError):
    """Records that were read no longer exist, and `auto_offset_reset` is "none": the new leader did not have them
    (KIP-320), or the topic was recreated. `offset` is the first offset that now holds another record or no record.
    """

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class IllegalStateError(KafkaError):
    """The call is not allowed in the client's current state; the message gives the reason."""


class CommitFailedError(KafkaError):
    """Offsets were not committed because the group has removed this member: the time between two calls for records
    exceeded `max_poll_interval_ms`, or the member was disconnected. Other members continue its partitions from the
    last committed offsets.
    """


class RebalanceFailedError(KafkaError):
    """A ZooKeeper consumer could not claim its partitions in `rebalance_max_retries` attempts; the message says why.
    The consumer continues to try; until it succeeds it reads nothing.
    """

    retriable = True


class ConsumerIdInUseError(KafkaError):
    """Another consumer of the group is registered in ZooKeeper with the same id."""


class ZooKeeperSessionError(KafkaError):
    """There is no session with ZooKeeper, or it may have expired: no offsets may be committed now."""

    retriable = True


class HandlerFailedError(KafkaError):
    """The handler of a listener container raised, and its error handler stopped the container. The handler's exception
    is the cause. `records` are the records that were being handled; their offsets are not committed.
    """

    def __init__(self, message: str, records: "Sequence[ConsumerRecord]") -> None:
        super().__init__(message)
        self.records = records


class ClaimError(KafkaError):
    """A claim is invalid, or its value is not in the store or differs from the value that was stored; the message names
    the claim and the store.
    """


class BlobMissingError(ClaimError):
    """A claim check's store does not have the value, or no longer has it."""


# Error codes whose class has another base than KafkaError.
_BASES = {
    "SASL_AUTHENTICATION_FAILED": AuthenticationError,
    "UNSUPPORTED_SASL_MECHANISM": AuthenticationError,
    "ILLEGAL_SASL_STATE": AuthenticationError,
}

_classes: "dict[int, type[KafkaError]]" = {}


def class_name(code: ErrorCode) -> str:
    """The name of the exception class for an error code: `UnknownTopicOrPartitionError` for
    UNKNOWN_TOPIC_OR_PARTITION.
    """
    base = _NAMES.get(code.name) or "".join(word.capitalize() for word in code.name.split("_"))
    return f"{base.removesuffix('Error')}Error"


def error_class(code: int) -> type[KafkaError]:
    """The exception class for an error code. An error code that this version does not know gives
    UnknownServerError.
    """
    found = _classes.get(code)
    if found is None:
        known = known_code(code)
        found = _classes.get(known)
        if found is None:
            name = class_name(known)
            body = {
                "__module__": __name__,
                "__doc__": f"A broker answered {known.name} ({known.value}).",
                "code": known,
                "retriable": known.retriable,
            }
            found = _classes[known] = type(name, (_BASES.get(known.name, KafkaError),), body)
    return found


def error_for(code: int, message: str | None = None, *, context: str = "") -> KafkaError:
    """An exception for a broker's error code.

    `message` is the broker's error message, if the answer has one; `context` says what was being done
    ("create topic orders") and precedes the message.
    """
    made, name = error_class(code), code_name(code)
    text = f"{name}: {message}" if message and message != name else name
    return made(f"{context}: {text}" if context else text)


def __getattr__(name: str) -> type[KafkaError]:
    if name.endswith("Error"):
        for code in ErrorCode:
            if code and class_name(code) == name:
                return error_class(code)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
