"""Where a transactional producer stands, without I/O.

    UNINITIALIZED → READY ⇄ IN_TRANSACTION → COMMITTING → READY
                             IN_TRANSACTION → ABORTING → READY
                             IN_TRANSACTION → COMMITTING → PREPARED: another process ends it, this one is at its end
    an error:  IN_TRANSACTION, COMMITTING → ABORTABLE_ERROR → ABORTING → READY
               any → FATAL_ERROR

After an abortable error only an abort goes on; a fatal one (another producer has taken the transactional id over, the
id may not be used, …) ends the producer. A commit or abort that ran out of time stays where it was: the same call
again goes on with it, as nobody knows whether the coordinator has written it down.
"""

from enum import Enum

from client.errors import IllegalStateError, KafkaError, UnsupportedApiError
from protocol.error_codes import ErrorCode


class TransactionState(Enum):
    """See the module. The value is how it is told."""

    UNINITIALIZED = "the producer has not been started"
    READY = "no transaction is open"
    IN_TRANSACTION = "a transaction is open"
    COMMITTING = "the transaction is being committed"
    ABORTING = "the transaction is being aborted"
    PREPARED = "the transaction was handed over"
    ABORTABLE_ERROR = "the transaction has failed and must be aborted"
    FATAL_ERROR = "the producer has failed for good"


_FATAL = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT,
    }
)
_ABORTABLE = frozenset(
    {
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
# The coordinator or a broker has forgotten the producer: it can go on under a new epoch only.
FORGOTTEN = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING})


def is_fatal(error: KafkaError, *, otherwise: bool) -> bool:
    """Whether an error ends the producer; `otherwise` for one that no rule names."""
    if error.code in _FATAL or isinstance(error, UnsupportedApiError):
        return True
    return otherwise and error.code not in _ABORTABLE and not error.retriable


class TransactionStatus:
    """The state, and the error that led into an error state."""

    def __init__(self) -> None:
        self.state = TransactionState.UNINITIALIZED
        self.error: KafkaError | None = None
        # Numbers of this epoch are in doubt: after the abort go on under the next one (KIP-360).
        self.needs_epoch = False

    @property
    def is_failing(self) -> bool:
        """Nothing more is sent for this transaction: it is or will be aborted, or the producer has ended."""
        return self.state in (
            TransactionState.ABORTING,
            TransactionState.ABORTABLE_ERROR,
            TransactionState.FATAL_ERROR,
        )

    def initialised(self) -> None:
        """There is a producer id."""
        self.state = TransactionState.READY
        self.error = None
        self.needs_epoch = False

    def begin(self) -> None:
        """Open a transaction. Raises IllegalStateError, or the fatal error."""
        self._demand("begin_transaction", TransactionState.READY)
        self.state = TransactionState.IN_TRANSACTION

    def check_open(self, what: str) -> None:
        """Raises unless a transaction is open: IllegalStateError, or the error that it failed with."""
        if self.state is not TransactionState.IN_TRANSACTION:
            if self.error is not None:
                raise self.error.with_traceback(None)
            self._demand(what, TransactionState.IN_TRANSACTION)

    def start_commit(self) -> None:
        """Raises IllegalStateError, or the fatal error; after an abortable one nothing changes."""
        self._demand(
            "commit_transaction",
            TransactionState.IN_TRANSACTION,
            TransactionState.COMMITTING,
            TransactionState.ABORTABLE_ERROR,
        )
        if self.state is TransactionState.IN_TRANSACTION:
            self.state = TransactionState.COMMITTING

    def prepared(self) -> None:
        """All of it is written, and somebody else ends it."""
        self.state = TransactionState.PREPARED

    def stop_commit(self) -> None:
        """Nothing has been told to the coordinator yet."""
        if self.state is TransactionState.COMMITTING:
            self.state = TransactionState.IN_TRANSACTION

    def start_abort(self) -> None:
        """Raises IllegalStateError, or the fatal error."""
        self._demand(
            "abort_transaction",
            TransactionState.IN_TRANSACTION,
            TransactionState.ABORTING,
            TransactionState.ABORTABLE_ERROR,
        )
        self.state = TransactionState.ABORTING

    def ended(self) -> None:
        """The commit or abort is done."""
        self.state = TransactionState.READY
        self.error = None

    def failed(self, error: KafkaError, *, fatal: bool) -> bool:
        """An error of the transaction; True if it changed the state."""
        if error.code in FORGOTTEN:
            self.needs_epoch = True
        if fatal:
            changed = self.state is not TransactionState.FATAL_ERROR
            if changed:
                self.state, self.error = TransactionState.FATAL_ERROR, error
            return changed
        if self.state in (TransactionState.IN_TRANSACTION, TransactionState.COMMITTING):
            self.state, self.error = TransactionState.ABORTABLE_ERROR, error
            return True
        return False

    def _demand(self, what: str, *states: TransactionState) -> None:
        if self.state in states:
            return
        if self.state is TransactionState.FATAL_ERROR and self.error is not None:
            raise self.error.with_traceback(None)
        hint = ": begin_transaction() opens one" if self.state is TransactionState.READY else ""
        raise IllegalStateError(f"{what}: {self.state.value}{hint}")
