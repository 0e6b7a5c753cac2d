"""A transaction that one process has written and another process ends.

`Producer.prepare_transaction` returns it after every record is acknowledged; then the producer is closed. Any process
that has this name commits or aborts the transaction (`Admin.end_transactions`), even after the producer's process has
ended. Until then the transaction is open; its coordinator aborts it after its `transaction_timeout_ms`. The name is
unique if each transaction begins under an epoch of its own, by a new producer.
"""

from typing import NamedTuple


class PreparedTransaction(NamedTuple):
    """The fields of an EndTxn request."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
