"""A transaction that one process has written and another one ends.

Its producer hands it over (`Producer.prepare_transaction`) with every record acknowledged, and is closed; whoever has
its name commits or aborts it (`Admin.end_transactions`), also after the producer's process is gone. Until then it is
open, and its coordinator aborts it when its `transaction_timeout_ms` is over. The name is of this transaction alone as
long as each is begun under an epoch of its own, by a new producer.
"""

from typing import NamedTuple


class PreparedTransaction(NamedTuple):
    """What EndTxn has to say."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
