"""Whether what a producer writes belongs to a transaction that its coordinator knows (KIP-890, part 1).

Without it a batch that arrives after its transaction has ended would open a transaction that nobody ends, and hold
readers of committed data back for ever. So the first batch of a transaction in a partition is appended only with a
*guard*: the leader makes one, asks the coordinator, and appends if that said yes and the guard still stands. A marker
or an append takes the guards of its producer away, and who comes after needs another. Later batches need none: the log
knows the transaction to be open.
"""

from __future__ import annotations

from storage.errors import InvalidTxnStateError, OutOfOrderSequenceError


class VerificationGuard:
    """One question to the coordinator, and all that join it until it is used up."""

    __slots__ = ("lowest_sequence", "producer_epoch", "started_ms")

    def __init__(self, producer_epoch: int, sequence: int, started_ms: int) -> None:
        self.producer_epoch = producer_epoch
        self.lowest_sequence = sequence
        self.started_ms = started_ms

    def join(self, producer_epoch: int, sequence: int) -> None:
        """Another batch waits for the same answer."""
        if producer_epoch > self.producer_epoch:
            self.producer_epoch, self.lowest_sequence = producer_epoch, sequence
        elif producer_epoch == self.producer_epoch:
            self.lowest_sequence = min(self.lowest_sequence, sequence)


UNVERIFIED = VerificationGuard(-1, -1, 0)
"""For batches of transactions that nobody asked about: they may only go on with what is open."""


class TransactionVerification:
    """The guards of one partition, by producer id."""

    __slots__ = ("guards",)

    def __init__(self) -> None:
        self.guards: dict[int, VerificationGuard] = {}

    def start(
        self, producer_id: int, producer_epoch: int, sequence: int, now_ms: int, expiration_ms: int
    ) -> VerificationGuard:
        """The guard to append with once the coordinator has confirmed. Those older than `expiration_ms` go."""
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
        """Refuse a batch that may not be appended. is_open: the log knows the producer's transaction.

        Raises InvalidTxnStateError; OutOfOrderSequenceError where an earlier batch of the producer was refused and will
        be sent again: it must come first.
        """
        known = self.guards.get(producer_id)
        if not is_open and (known is None or known is not guard):
            raise InvalidTxnStateError(f"producer {producer_id} has no verified transaction here")
        if known is not None and sequence > known.lowest_sequence:
            raise OutOfOrderSequenceError(
                f"sequence number {sequence} of producer {producer_id} where {known.lowest_sequence} was refused before"
            )

    def appended(self, producer_id: int) -> None:
        """A batch or a marker of the producer was appended."""
        self.guards.pop(producer_id, None)
