"""A topic and a partition."""

from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A topic's name and the partition's number, from 0."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
