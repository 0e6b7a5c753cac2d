"""What a consumer group knows of topics: those that its members are subscribed to, and their partitions.

A member names topics, or gives a regular expression (RE2 syntax, matched against whole names), or both. Expressions
are resolved by RE2, whose time is linear in pattern and text: no pattern of a client can keep the broker busy. What
they resolve to is kept in the log, like the partitions of the topics, so that another coordinator goes on with it.
Pure but for the cache of compiled expressions. Source: KIP-848, ModernGroup.
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
"""Longer ones are refused: they cost memory, and no set of topics needs them."""
_MAX_PATTERN_MEMORY_BYTES = 1 << 20
_COMPILED_PATTERNS = 256

Racks = Mapping[int, tuple[str, ...]]


class SubscribedTopic(NamedTuple):
    """A topic as a group's log says it is. Racks: of the replicas' brokers by partition, where they have any."""

    topic_id: bytes
    partitions: int
    racks: Racks = MappingProxyType({})

    def is_as(self, other: SubscribedTopic) -> bool:
        """True where nothing differs that an assignment depends on; brokers that go and come change racks."""
        return self.topic_id == other.topic_id and self.partitions == other.partitions


Topics = Mapping[str, SubscribedTopic]


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression stood for at a time (ms)."""

    topics: frozenset[str]
    timestamp: int


class InvalidRegexError(Exception):
    """A pattern that is no regular expression of RE2; the text says why."""


class TopicsImage:
    """The topics of the cluster at one moment. Nothing in it changes."""

    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def is_of(self, snapshot: Snapshot) -> bool:
        """True where it shows this snapshot."""
        return self._snapshot is snapshot

    def name(self, topic_id: bytes) -> str | None:
        """A topic's name; None where there is no such topic (any longer)."""
        return self._snapshot.topic_names.get(topic_id)

    def topic_id(self, name: str) -> bytes | None:
        """A topic's id; None where there is no such topic."""
        topic = self._snapshot.topics.get(name)
        return None if topic is None or topic.topic_id == ZERO_UUID else topic.topic_id

    def describe(self, names: Iterable[str]) -> dict[str, SubscribedTopic]:
        """Those of the topics that exist. One without an id (of an old controller) is not there for groups."""
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
        """The topics that a regular expression stands for. Raises InvalidRegexError."""
        matches = _matcher(pattern)
        return frozenset(name for name in self._snapshot.topics if matches(name))


def check_regex(pattern: str) -> None:
    """Raises InvalidRegexError."""
    _matcher(pattern)


@lru_cache(_COMPILED_PATTERNS)
def _matcher(pattern: str) -> Callable[[str], re.Match[str] | None]:
    import re2  # only groups that use it pay for it

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
