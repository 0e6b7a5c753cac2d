"""Hanging transactions: open in a partition, but unknown to every transaction coordinator (KIP-664).

A hanging transaction is never completed. It holds back the last stable offset, and so all read_committed consumers. A
transaction counts as hanging if its last record is older than the longest allowed transaction timeout
(`transaction.max.timeout.ms`), and no coordinator knows a transaction of its producer id in this partition.
"""

from collections.abc import Iterable
from typing import NamedTuple

from client.admin.admin import Admin
from client.admin.types import ActiveProducer
from client.errors import KafkaError, TransactionalIdNotFoundError
from client.topic_partition import TopicPartition


class OpenTransaction(NamedTuple):
    """A producer that has an open transaction in a partition."""

    partition: TopicPartition
    producer: ActiveProducer


async def find_hanging(
    admin: Admin,
    partitions: Iterable[TopicPartition],
    *,
    now_ms: int,
    max_timeout_ms: int,
    broker_id: int | None = None,
) -> list[OpenTransaction]:
    """Return the hanging transactions in these partitions, as reported by their leaders, or by broker `broker_id`.

    Raises KafkaError.
    """
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
