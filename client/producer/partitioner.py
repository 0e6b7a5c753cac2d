"""Choose the partition of a record.

The default is the Java client's: a record with a key goes to `murmur2(key) & 0x7fffffff` modulo the number of
partitions, so both clients put the same key into the same partition. Records without a key stick to one partition
until a batch of it is full, then to another random partition (KIP-480). This fills batches that round robin would
leave small.
"""

import random as random_module
from collections.abc import Callable, Sequence
from typing import Protocol, cast

from client.options import refuse

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash of `data` as Kafka's clients compute it, unsigned."""
    length = len(data)
    value = _SEED ^ length
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ word
    if whole < length:
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15


class Partitioner(Protocol):
    """Chooses the partition of a record."""

    def partition(self, topic: str, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        """One of `partitions` (all of the topic, sorted). `available` are those with a leader; it may be empty."""
        ...

    def batch_full(self, topic: str, partition: int) -> None:
        """A batch for this partition is full: a sticky partitioner may change to another partition."""
        ...


class DefaultPartitioner:
    """Murmur2 of the key; sticky for records without a key. `random` is injected."""

    def __init__(self, random: random_module.Random | None = None) -> None:
        self._random = random if random is not None else random_module.Random()
        self._sticky: dict[str, int] = {}

    def partition(self, topic: str, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        """See the module's docstring."""
        if key is not None:
            return partitions[(murmur2(key) & 0x7FFFFFFF) % len(partitions)]
        sticky = self._sticky.get(topic)
        if sticky is None or (available and sticky not in available):
            sticky = self._sticky[topic] = self._random.choice(available or partitions)
        return sticky

    def batch_full(self, topic: str, partition: int) -> None:
        """Drop the sticky partition, so that the next record without a key chooses a new one."""
        if self._sticky.get(topic) == partition:
            del self._sticky[topic]


class StickyPartitioner(DefaultPartitioner):
    """Sticky for all records, with or without a key (Java: `UniformStickyPartitioner`)."""

    def partition(self, topic: str, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        """See the module's docstring about records without a key."""
        return super().partition(topic, None, partitions, available)


class RoundRobinPartitioner:
    """Partitions in turn, with or without a key."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def partition(self, topic: str, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        """The next partition that has a leader."""
        number = self._next.get(topic, 0)
        self._next[topic] = number + 1
        choices = available or partitions
        return choices[number % len(choices)]

    def batch_full(self, topic: str, partition: int) -> None:
        """Do nothing: there is no sticky partition."""


PartitionFunction = Callable[[bytes | None, Sequence[int], Sequence[int]], int]


class FunctionPartitioner:
    """A user's function of (key, all partitions, available partitions), as in aiokafka and kafka-python."""

    def __init__(self, function: PartitionFunction) -> None:
        self._function = function

    def partition(self, topic: str, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        """The result of the function."""
        return self._function(key, partitions, available)

    def batch_full(self, topic: str, partition: int) -> None:
        """Do nothing: there is no sticky partition."""


def make_partitioner(
    option: "str | Partitioner | PartitionFunction | None", random: random_module.Random
) -> Partitioner:
    """The partitioner for an option: None or "default", "sticky", "round_robin", a Partitioner or a function."""
    if option is None or option == "default":
        return DefaultPartitioner(random)
    if option == "sticky":
        return StickyPartitioner(random)
    if option == "round_robin":
        return RoundRobinPartitioner()
    if isinstance(option, str):
        raise refuse("partitioner", option, "must be default, sticky, round_robin, a partitioner or a function")
    if hasattr(option, "partition"):
        return cast(Partitioner, option)
    if callable(option):
        return FunctionPartitioner(option)
    raise refuse("partitioner", option, "must be default, sticky, round_robin, a partitioner or a function")
