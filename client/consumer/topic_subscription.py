"""The topics that a consumer subscribes to: names, or a pattern of names."""

import re
from collections.abc import Iterable

from client.options import refuse
from client.wire.metadata import Metadata


class TopicSubscription:
    """`names` and `pattern` are never both set. `exclude_internal`: the pattern does not match internal topics."""

    def __init__(self, *, exclude_internal: bool) -> None:
        self.names: frozenset[str] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self._exclude_internal = exclude_internal

    @property
    def is_set(self) -> bool:
        """Whether `names` or `pattern` is set."""
        return bool(self.names) or self.pattern is not None

    def set(self, topics: Iterable[str], pattern: str | None) -> None:
        """Replace the subscription. Raises InvalidOptionError."""
        names = frozenset([topics] if isinstance(topics, str) else topics)
        if bool(names) == (pattern is not None):
            raise refuse("topics", sorted(names), "give either topics or a pattern")
        for name in names:
            if not isinstance(name, str) or not name:
                raise refuse("topics", name, "must be the name of a topic")
        compiled = None
        if pattern is not None:
            try:
                compiled = re.compile(pattern)
            except re.error as error:
                raise refuse("pattern", pattern, f"is not a regular expression: {error}") from None
        self.names, self.pattern = names, compiled

    def clear(self) -> None:
        """Unsubscribe from all topics."""
        self.names, self.pattern = frozenset(), None

    def topics(self, metadata: Metadata) -> list[str]:
        """The topic names, sorted; with a pattern, the names in `metadata` that match it."""
        if self.pattern is None:
            return sorted(self.names)
        return sorted(
            topic.name
            for topic in metadata.topics.values()
            if self.pattern.fullmatch(topic.name) and not (topic.is_internal and self._exclude_internal)
        )
