"""Whether a batch belongs to a transaction that the producer's coordinator knows (KIP-890, part 1).

Without verification, a batch that arrives after the end of its transaction would open a transaction that never ends,
and block readers of committed data forever. Therefore the first batch of a transaction in a partition is appended only
with a *guard*. The leader creates the guard, asks the coordinator, and appends the batch if the coordinator confirms
the transaction and the guard still exists. A marker or an append removes the guard of its producer: the next
verification needs a new one. Later batches need none: the log has the transaction open.
"""

from __future__ import annotations

from storage.errors import InvalidTxnStateError, OutOfOrderSequenceError


class VerificationGuard:
    """One query to the coordinator, shared by all batches that join it until it is used up."""

    __slots__ = ("lowest_sequence", "producer_epoch", "started_ms")

    def __init__(self, producer_epoch: int, sequence: int, started_ms: int) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.started_ms = started_ms

    def join(self, producer_epoch: int, sequence: int) -> None:
        """Let another batch wait for the same answer."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = producer_epoch, sequence
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


UNVERIFIED = VerificationGuard(-1, -1, 0)
"""For batches of transactions that are not verified: they may only continue an open transaction."""


class TransactionVerification:
    """The guards of one partition, by producer id."""

    __slots__ = ("guards",)

    def __init__(self) -> None:
        self.guards: dict[int, VerificationGuard] = {}

    def start(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, expiration_ms: int
    ) -> VerificationGuard:
        """Return the guard to append with once the coordinator has confirmed. Drop those older than `expiration_ms`."""
        guards = self.guards
        while guards:
            oldest, guard = next(iter(guards.items()))
            if now_ms - guard.started_ms < expiration_ms:
                break
            del guards[oldest]
        known = guards.get(producer_id)
        if known is None:
            known = guards[producer_id] = VerificationGuard(producer_epoch, sequence, now_ms)
        else:
            known.join(producer_epoch, sequence)
        return known

    def check(self, guard: VerificationGuard, producer_id: int, sequence: int, *, is_open: bool) -> None:
        """Refuse a batch that must not be appended. is_open: whether the log has the producer's transaction open.

        Raises InvalidTxnStateError; OutOfOrderSequenceError if an earlier batch of the producer was refused and will be
        sent again: that batch must come first.
        """
        known = self.guards.get(producer_id)
        if not is_open and (known is None or known is not guard):
            raise InvalidTxnStateError(f"producer {producer_id} has no verified transaction here")
        if known is not None and sequence > known.lowest_sequence:
            raise OutOfOrderSequenceError(
                f"producer {producer_id} must resend sequence number {known.lowest_sequence} before {sequence}"
            )

    def appended(self, producer_id: int) -> None:
        """Remove the guard of a producer: its batch or marker was appended."""
        self.guards.pop(producer_id, None)
