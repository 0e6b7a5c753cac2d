"""The topics that the members of a consumer group are subscribed to, and their partitions.

A member subscribes to topic names, to a regular expression (RE2 syntax, matched against whole names), or to both. RE2
matches in time linear in the pattern and the text, so that a client's pattern cannot block the broker. The topics that
an expression resolves to are kept in the log, like the partitions of the topics, so that the next coordinator has them.
Pure except for the cache of compiled expressions. Source: KIP-848, ModernGroup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from broker.cluster.metadata_cache import Snapshot
from protocol.uuid import ZERO_UUID

if TYPE_CHECKING:
    import re

MAX_PATTERN_CHARACTERS = 10_000
"""Longer patterns are rejected: they need much memory, and no set of topics requires them."""
_MAX_PATTERN_MEMORY_BYTES = 1 << 20
_COMPILED_PATTERNS = 256

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


class InvalidRegexError(Exception):
    """A pattern is not a valid RE2 regular expression; the message says why."""


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
        matches = _matcher(pattern)
        return frozenset(name for name in self._snapshot.topics if matches(name))


def check_regex(pattern: str) -> None:
    """Raise InvalidRegexError if the pattern is not valid."""
    _matcher(pattern)


@lru_cache(_COMPILED_PATTERNS)
def _matcher(pattern: str) -> Callable[[str], re.Match[str] | None]:
    import re2  # takes 2.5 MB; few groups use a regular expression

    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise InvalidRegexError(f"longer than {MAX_PATTERN_CHARACTERS} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_PATTERN_MEMORY_BYTES
    try:
        compiled = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        text = error.args[0] if error.args else error
        raise InvalidRegexError(text.decode(errors="replace") if isinstance(text, bytes) else str(text)) from None
    matcher: Callable[[str], re.Match[str] | None] = compiled.fullmatch
    return matcher
