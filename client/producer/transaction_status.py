"""The state of a transactional producer, without I/O.

    UNINITIALIZED → READY ⇄ IN_TRANSACTION → COMMITTING → READY
                             IN_TRANSACTION → ABORTING → READY
                             IN_TRANSACTION → COMMITTING → PREPARED: another process ends the transaction
    an error:  IN_TRANSACTION, COMMITTING → ABORTABLE_ERROR → ABORTING → READY
               any → FATAL_ERROR

After an abortable error the transaction can only be aborted. A fatal error (another producer has taken over the
transactional id, the id may not be used, …) ends the producer. A commit or abort that timed out keeps its state: it is
unknown whether the coordinator has recorded it, and the same call continues it.
"""

from enum import Enum

from client.errors import IllegalStateError, KafkaError, UnsupportedApiError
from protocol.error_codes import ErrorCode


class TransactionState(Enum):
    """See the module's docstring. The value is the text for error messages."""

    UNINITIALIZED = "the producer has not been started"
    READY = "no transaction is open"
    IN_TRANSACTION = "a transaction is open"
    COMMITTING = "the transaction is being committed"
    ABORTING = "the transaction is being aborted"
    PREPARED = "the transaction was handed over"
    ABORTABLE_ERROR = "the transaction has failed and must be aborted"
    FATAL_ERROR = "the producer has failed with a fatal error"


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
# The coordinator or a broker has forgotten the producer: it can continue only under a new epoch.
UNKNOWN_PRODUCER = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING})


def is_fatal(error: KafkaError, *, otherwise: bool) -> bool:
    """Whether an error ends the producer; `otherwise` is the answer for an error without a rule."""
    if error.code in _FATAL or isinstance(error, UnsupportedApiError):
        return True
    return otherwise and error.code not in _ABORTABLE and not error.retriable


class TransactionStatus:
    """The state, and the error that caused an error state."""

    def __init__(self) -> None:
        self.state = TransactionState.UNINITIALIZED
        self.error: KafkaError | None = None
        # Sequence numbers of this epoch are in doubt: change to the next epoch after the abort (KIP-360).
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
        """Note that there is a producer id."""
        self.state = TransactionState.READY
        self.error = None
        self.needs_epoch = False

    def begin(self) -> None:
        """Open a transaction. Raises IllegalStateError, or the fatal error."""
        self._demand("begin_transaction", TransactionState.READY)
        self.state = TransactionState.IN_TRANSACTION

    def check_open(self, what: str) -> None:
        """Raise an error unless a transaction is open: IllegalStateError, or the error of the transaction."""
        if self.state is not TransactionState.IN_TRANSACTION:
            if self.error is not None:
                raise self.error.with_traceback(None)
            self._demand(what, TransactionState.IN_TRANSACTION)

    def start_commit(self) -> None:
        """Start a commit; no change after an abortable error. Raises IllegalStateError, or the fatal error."""
        self._demand(
            "commit_transaction",
            TransactionState.IN_TRANSACTION,
            TransactionState.COMMITTING,
            TransactionState.ABORTABLE_ERROR,
        )
        if self.state is TransactionState.IN_TRANSACTION:
            self.state = TransactionState.COMMITTING

    def prepared(self) -> None:
        """Note that all records are written and that another process ends the transaction."""
        self.state = TransactionState.PREPARED

    def stop_commit(self) -> None:
        """Return to the open transaction; no request to commit it was sent yet."""
        if self.state is TransactionState.COMMITTING:
            self.state = TransactionState.IN_TRANSACTION

    def start_abort(self) -> None:
        """Start an abort. Raises IllegalStateError, or the fatal error."""
        self._demand(
            "abort_transaction",
            TransactionState.IN_TRANSACTION,
            TransactionState.ABORTING,
            TransactionState.ABORTABLE_ERROR,
        )
        self.state = TransactionState.ABORTING

    def ended(self) -> None:
        """Note that the commit or abort is done."""
        self.state = TransactionState.READY
        self.error = None

    def failed(self, error: KafkaError, *, fatal: bool) -> bool:
        """Note an error of the transaction; return True if it changed the state."""
        if error.code in UNKNOWN_PRODUCER:
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
