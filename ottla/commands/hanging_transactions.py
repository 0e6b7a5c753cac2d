"""Transactions that nobody will end: open in a partition, and not known there to any coordinator (KIP-664).

Such hold back the last stable offset, and with it every reader of committed records. One is taken for hanging when its
last record is older than the longest timeout that a transaction may have (`transaction.max.timeout.ms`) and the
coordinator of its producer id, if it knows that, has no such transaction in this partition.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from client.topic_partition import TopicPartition

if TYPE_CHECKING:
    from client.admin.admin import Admin
    from client.admin.types import ActiveProducer


class OpenTransaction(NamedTuple):
    """A producer with a transaction open in a partition."""

    partition: TopicPartition
    producer: "ActiveProducer"


async def find_hanging(
    admin: "Admin",
    partitions: Iterable[TopicPartition],
    *,
    now_ms: int,
    max_timeout_ms: int,
    broker_id: int | None = None,
) -> list[OpenTransaction]:
    """The hanging transactions in these partitions, as their leaders know them, or one broker. Raises KafkaError."""
    from client.errors import KafkaError, TransactionalIdNotFoundError

    old = [
        OpenTransaction(partition, producer)
        for partition, producers in (await admin.describe_producers(partitions, broker_id=broker_id)).items()
        for producer in producers
        if producer.current_transaction_start_offset >= 0 and now_ms - producer.last_timestamp > max_timeout_ms
    ]
    if not old:
        return []
    listed = await admin.list_transactions(producer_ids={one.producer.producer_id for one in old})
    described = await admin.describe_transactions([listing.transactional_id for listing in listed])
    awaited: set[tuple[int, TopicPartition]] = set()
    for transaction in described.values():
        if isinstance(transaction, TransactionalIdNotFoundError):
            continue
        if isinstance(transaction, KafkaError):
            raise transaction
        awaited |= {(transaction.producer_id, partition) for partition in transaction.partitions}
    return [one for one in old if (one.producer.producer_id, one.partition) not in awaited]
