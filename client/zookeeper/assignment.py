"""Kafka 0.8's range assignment: which thread of which consumer reads which partition. No I/O.

There is no coordinator: each consumer of the group computes the assignment from the znodes that it reads, and equal
views give equal assignments. For each topic the partitions are in the order of the group's tree (`layout`), and the
threads of all consumers of the topic are sorted by their ids as text. With n partitions and c threads, each thread in
turn gets n div c partitions, and the first n mod c threads get one more.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from client.topic_partition import TopicPartition
from protocol.host_port import HostPort


class ConsumerThread(NamedTuple):
    """One thread of a consumer, numbered from 0 for each topic."""

    consumer: str
    number: int

    def __str__(self) -> str:
        return f"{self.consumer}-{self.number}"


class GroupView(NamedTuple):
    """A consumer's view of its group. Equal views give equal assignments.

    `brokers` are id and address of the live brokers. `threads` is the number of threads by consumer and topic.
    `partitions` maps each topic's partition numbers to their names in ZooKeeper, in the order of the assignment.
    """

    brokers: tuple[tuple[int, HostPort], ...]
    threads: Mapping[str, Mapping[str, int]]
    partitions: Mapping[str, Mapping[int, str]]

    def names(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """The names of these partitions in ZooKeeper."""
        return {partition: self.partitions[partition.topic][partition.partition] for partition in partitions}


def assign_range(partitions: Iterable[int], threads: Iterable[ConsumerThread]) -> dict[int, ConsumerThread]:
    """The thread of each partition of one topic; `partitions` are in order. Some threads may get no partition."""
    row = list(partitions)
    in_order = sorted(threads, key=str)
    assigned: dict[int, ConsumerThread] = {}
    if not in_order:
        return assigned
    share, extra = divmod(len(row), len(in_order))
    start = 0
    for position, thread in enumerate(in_order):
        end = start + share + (1 if position < extra else 0)
        assigned.update(dict.fromkeys(row[start:end], thread))
        start = end
    return assigned


def assignment_of(consumer: str, view: GroupView) -> dict[TopicPartition, ConsumerThread]:
    """The assigned partitions of one consumer with their threads, sorted."""
    found: dict[TopicPartition, ConsumerThread] = {}
    for topic in sorted(view.threads.get(consumer, {})):
        threads = [
            ConsumerThread(one, number)
            for one, wanted in view.threads.items()
            for number in range(wanted.get(topic, 0))
        ]
        for partition, thread in assign_range(view.partitions.get(topic, {}), threads).items():
            if thread.consumer == consumer:
                found[TopicPartition(topic, partition)] = thread
    return found
