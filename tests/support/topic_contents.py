"""The contents of a topic, as librdkafka reads it."""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from support.deadlines import DEADLINE_S
from support.polling import until_blocking


class Written(NamedTuple):
    """A record as it is in the topic."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def topic_contents(bootstrap: str, topic: str, *, committed: bool = True, is_open: bool = False) -> list[Written]:
    """All records of a topic up to its end; with `committed`, only those of committed transactions.

    The records of a transaction are visible some time after the answer to its commit. This is waited for, unless
    `is_open`: then transactions may be open, and nothing behind the beginning of the first is returned.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "contents",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed" if committed else "read_uncommitted",
        }
    )
    try:
        metadata = consumer.list_topics(topic, DEADLINE_S).topics[topic]
        left = set(metadata.partitions)
        if committed and not is_open:
            _wait_until_ended(bootstrap, [TopicPartition(topic, number) for number in left])
        consumer.assign([TopicPartition(topic, number, 0) for number in left])
        found = []
        while left:
            message = consumer.poll(DEADLINE_S)
            assert message is not None, f"{topic}: the end is not reached in {left}"
            error = message.error()
            if error is None:
                headers = tuple(message.headers() or ())
                found.append(Written(message.partition(), message.key(), message.value(), headers))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, str(error)
                left.discard(message.partition())
        return found
    finally:
        consumer.close()


def _wait_until_ended(bootstrap: str, partitions: list[TopicPartition]) -> None:
    """Wait until no transaction is open."""
    admin = AdminClient({"bootstrap.servers": bootstrap})

    def ends(level: IsolationLevel) -> list[int]:
        asked = dict.fromkeys(partitions, OffsetSpec.latest())
        found = admin.list_offsets(asked, isolation_level=level, request_timeout=DEADLINE_S)
        return [found[one].result().offset for one in partitions]

    until_blocking(
        lambda: ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED),
        f"no transaction is open in {partitions}",
    )
