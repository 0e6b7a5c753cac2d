"""The topics that the members of a consumer group are subscribed to, and their partitions.

A member subscribes to topic names, to a regular expression (RE2 syntax, matched against whole names), or to both. It is
matched in time linear in the pattern and the text, so that a client's pattern cannot block the broker. The topics that
an expression resolves to are kept in the log, like the partitions of the topics, so that the next coordinator has them.
Pure except for the cache of compiled expressions. Source: KIP-848, ModernGroup.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from broker.cluster.metadata_cache import Snapshot
from broker.coordinator.consumer.regex.errors import InvalidRegexError
from broker.coordinator.consumer.regex.matcher import Matcher
from protocol.uuid import ZERO_UUID

MAX_PATTERN_CHARACTERS = 10_000
"""Longer patterns are rejected: they need much memory, and no set of topics requires them."""
_REMEMBERED_PATTERNS = 64

Racks = Mapping[int, tuple[str, ...]]


class SubscribedTopic(NamedTuple):
    """A topic in the log of a group. racks: by partition, the racks of the replicas' brokers that have one."""

    topic_id: bytes
    partitions: int
    racks: Racks = MappingProxyType({})

    def is_as(self, other: SubscribedTopic) -> bool:
        """Whether id and number of partitions are equal. Racks are ignored: broker restarts change them."""
        return self.topic_id == other.topic_id and self.partitions == other.partitions


Topics = Mapping[str, SubscribedTopic]


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression resolved to, and when (ms since 1970)."""

    topics: frozenset[str]
    timestamp: int


class TopicsImage:
    """The topics of the cluster at one time. Immutable."""

    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def is_of(self, snapshot: Snapshot) -> bool:
        """Whether the image was made from this snapshot."""
        return self._snapshot is snapshot

    def name(self, topic_id: bytes) -> str | None:
        """Return a topic's name; None if the topic does not exist."""
        return self._snapshot.topic_names.get(topic_id)

    def topic_id(self, name: str) -> bytes | None:
        """Return a topic's id; None if the topic does not exist or has no id."""
        topic = self._snapshot.topics.get(name)
        return None if topic is None or topic.topic_id == ZERO_UUID else topic.topic_id

    def describe(self, names: Iterable[str]) -> dict[str, SubscribedTopic]:
        """Return those of the topics that exist. Topics without an id (from an old controller) are left out."""
        described = {}
        for name in names:
            topic = self._snapshot.topics.get(name)
            if topic is None or topic.topic_id == ZERO_UUID:
                continue
            racks = {}
            for number, partition in topic.partitions.items():
                brokers = (self._snapshot.brokers.get(replica) for replica in partition.replicas)
                known = {broker.rack for broker in brokers if broker is not None and broker.rack is not None}
                if known:
                    racks[number] = tuple(sorted(known))
            described[name] = SubscribedTopic(topic.topic_id, len(topic.partitions), racks)
        return described

    def resolve(self, pattern: str) -> frozenset[str]:
        """Return the topics that match a regular expression. Raises InvalidRegexError."""
        return _matcher(pattern).matching(self._snapshot.topics)


@lru_cache(_REMEMBERED_PATTERNS)
def _matcher(pattern: str) -> Matcher:
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise InvalidRegexError(f"longer than {MAX_PATTERN_CHARACTERS} characters")
    return Matcher(pattern)
