"""Which thread of which consumer reads which partition: Kafka 0.8's range assignment. No I/O.

Nobody hands the assignment out: each consumer of the group works it out for itself from what it sees in ZooKeeper,
and two that see the same come to the same. For each topic the partitions stand in a row, in the order of the group's
tree (zookeeper_layout), and so do the threads of all consumers that want it, sorted by their ids as text. With n
partitions and c threads each takes n div c in turn, and the first n mod c threads take one more.
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
    """What a consumer sees of its group at a moment. Two equal views give the same assignment.

    `brokers` are id and address of those alive; `threads` tells for each consumer how many threads it has for each
    topic; `partitions` are the numbers of each topic's partitions with their names in ZooKeeper, in the order in which
    they are assigned.
    """

    brokers: tuple[tuple[int, HostPort], ...]
    threads: Mapping[str, Mapping[str, int]]
    partitions: Mapping[str, Mapping[int, str]]

    def names(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
        """What these partitions are called in ZooKeeper."""
        return {partition: self.partitions[partition.topic][partition.partition] for partition in partitions}


def assign_range(partitions: Iterable[int], threads: Iterable[ConsumerThread]) -> dict[int, ConsumerThread]:
    """The thread that reads each partition of one topic, whose `partitions` are in order. Some threads may get none."""
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
    """What the threads of one consumer read, sorted."""
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
