"""The contents of a topic, as librdkafka reads it."""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

from support.deadlines import DEADLINE_S


class Written(NamedTuple):
    """A record as it is in the topic."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def topic_contents(bootstrap: str, topic: str, *, committed: bool = True) -> list[Written]:
    """All records of a topic up to its end; with `committed`, only those of committed transactions."""
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
