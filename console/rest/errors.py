"""Errors of the API: the statuses and error codes of Confluent's REST Proxy for the errors of Kafka."""

from __future__ import annotations

from typing import Final

from client.errors import (
    ApiNotServedError,
    AuthenticationError,
    InvalidOptionError,
    KafkaError,
    NoBrokersAvailableError,
    RecordTooLargeError,
    UnsupportedApiError,
)
from protocol.error_codes import ErrorCode

BAD_REQUEST: Final = 40002
NOT_AUTHENTICATED: Final = 40101
NOT_AUTHORIZED: Final = 40301
PARTITION_NOT_FOUND: Final = 40402
UNKNOWN_TOPIC_OR_PARTITION: Final = 40403
KAFKA_ERROR: Final = 50002
RETRIABLE_KAFKA_ERROR: Final = 50003
BROKER_NOT_AVAILABLE: Final = 50302

_REFUSED: Final = frozenset(
    {
        ErrorCode.TOPIC_ALREADY_EXISTS,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.SECURITY_DISABLED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.TOPIC_DELETION_DISABLED,
        ErrorCode.MESSAGE_TOO_LARGE,
    }
)
_UNKNOWN: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class RestError(Exception):
    """An answer that is not successful."""

    def __init__(self, status: int, message: str, code: int | None = None, *, retry_after_s: int | None = None) -> None:
        """code: the error code in the body; by default the status. retry_after_s: when to try again."""
        super().__init__(message)
        self.status = status
        self.code = status if code is None else code
        self.message = message
        self.retry_after_s = retry_after_s


def not_found(message: str) -> RestError:
    """Return the error for a resource that does not exist."""
    return RestError(404, message)


def rest_error(error: KafkaError) -> RestError:
    """Return the answer for an error of the client or of a broker."""
    status, code = _codes(error)
    return RestError(status, not_served(error) if isinstance(error, ApiNotServedError) else str(error), code)


def not_served(error: ApiNotServedError) -> str:
    """Return the sentence for an API that the cluster does not have: its brokers are alike, so it names none."""
    return f"This cluster does not serve {error.api}."


def _codes(error: KafkaError) -> tuple[int, int]:
    code = error.code
    if isinstance(error, AuthenticationError):
        return 401, NOT_AUTHENTICATED
    if isinstance(error, NoBrokersAvailableError):
        return 503, BROKER_NOT_AVAILABLE
    if isinstance(error, InvalidOptionError | UnsupportedApiError | RecordTooLargeError):
        return 400, BAD_REQUEST
    if code is None:
        return 500, RETRIABLE_KAFKA_ERROR if error.retriable else KAFKA_ERROR
    if code.name.endswith("AUTHORIZATION_FAILED"):
        return 403, NOT_AUTHORIZED
    if code in _UNKNOWN:
        return 404, UNKNOWN_TOPIC_OR_PARTITION
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        return 404, 404
    if code in _REFUSED or code.name.startswith("INVALID_"):
        return 400, BAD_REQUEST
    return 500, RETRIABLE_KAFKA_ERROR if error.retriable else KAFKA_ERROR
