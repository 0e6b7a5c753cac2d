"""Which partition a record goes to.

The default is the Java client's: a keyed record goes to `murmur2(key) & 0x7fffffff` modulo the number of
partitions, so the same key lands in the same partition from either client; records without a key stick to
one partition until a batch of it is full, then to another at random (KIP-480), which fills batches that
round robin would leave small.
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
    """Chooses partitions."""

    def partition(self, topic: str, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        """One of `partitions` (all of the topic, sorted). `available` are those with a leader, maybe none."""
        ...

    def batch_full(self, topic: str, partition: int) -> None:
        """A batch for this partition is full: a partitioner that sticks to partitions may move on."""
        ...


class DefaultPartitioner:
    """Murmur2 of the key; without one, sticky. `random` is injected."""

    def __init__(self, random: random_module.Random | None = None) -> None:
        self._random = random if random is not None else random_module.Random()
        self._sticky: dict[str, int] = {}

    def partition(self, topic: str, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        """See the module."""
        if key is not None:
            return partitions[(murmur2(key) & 0x7FFFFFFF) % len(partitions)]
        sticky = self._sticky.get(topic)
        if sticky is None or (available and sticky not in available):
            sticky = self._sticky[topic] = self._random.choice(available or partitions)
        return sticky

    def batch_full(self, topic: str, partition: int) -> None:
        """Let go of the partition, so that the next record without a key picks one anew."""
        if self._sticky.get(topic) == partition:
            del self._sticky[topic]


class StickyPartitioner(DefaultPartitioner):
    """Sticky whatever the key (Java: `UniformStickyPartitioner`)."""

    def partition(self, topic: str, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        """See the module, for records without a key."""
        return super().partition(topic, None, partitions, available)


class RoundRobinPartitioner:
    """Partitions one after the other, whatever the key."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def partition(self, topic: str, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        """The next partition that has a leader."""
        number = self._next.get(topic, 0)
        self._next[topic] = number + 1
        choices = available or partitions
        return choices[number % len(choices)]

    def batch_full(self, topic: str, partition: int) -> None:
        """Nothing to remember."""


PartitionFunction = Callable[[bytes | None, Sequence[int], Sequence[int]], int]


class FunctionPartitioner:
    """A user's function of (key, all partitions, available partitions), as aiokafka and kafka-python
    take it.
    """

    def __init__(self, function: PartitionFunction) -> None:
        self._function = function

    def partition(self, topic: str, key: bytes | None, partitions: Sequence[int], available: Sequence[int]) -> int:
        """What the function says."""
        return self._function(key, partitions, available)

    def batch_full(self, topic: str, partition: int) -> None:
        """Nothing to remember."""


def make_partitioner(
    option: "str | Partitioner | PartitionFunction | None", random: random_module.Random
) -> Partitioner:
    """The partitioner that an option names: None or "default", "sticky", "round_robin", an object or a function."""
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
