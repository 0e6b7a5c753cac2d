"""The topics that `ottla consume` reads: names or regular expressions, and perhaps only some of their partitions."""

import re
from collections.abc import Mapping, Sequence

from client.errors import KafkaError
from client.topic_partition import TopicPartition
from client.wire.metadata import TopicMetadata
from ottla.command_line.clients import Admin, Reader
from ottla.command_line.failure import CommandError
from ottla.command_line.session import find_partitions
from ottla.records.record_filter import compile_expression


class TopicSelection:
    """Topics by name, or with `is_regex` by regular expressions that match the whole name of a topic.

    `partitions`: only these partitions of each topic; empty for all. Expressions do not match internal topics. Raises
    CommandError for an expression that is not valid.
    """

    def __init__(self, topics: Sequence[str], *, is_regex: bool, partitions: Sequence[int] = ()) -> None:
        self.topics = list(dict.fromkeys(topics))
        self.partitions = list(partitions)
        self._expressions = [compile_expression(text, "--regex") for text in self.topics] if is_regex else []

    @property
    def pattern(self) -> str | None:
        """One regular expression for all; None for names."""
        return "|".join(f"(?:{one.pattern})" for one in self._expressions) or None

    async def find(self, reader: Reader, bootstrap_server: str, *, may_be_none: bool) -> list[TopicPartition]:
        """Return the partitions.

        Raises CommandError for an unknown topic or partition, and unless `may_be_none`, if no topic matches.
        """
        if not self._expressions:
            return [
                TopicPartition(topic, number)
                for topic in self.topics
                for number in await find_partitions(reader, topic, self.partitions, bootstrap_server)
            ]
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            found = self._matching(await admin.describe_topics())
        if not found and not may_be_none:
            what = " or ".join(repr(topic) for topic in self.topics)
            raise CommandError(f"no topic has a name that matches {what} (whole names; internal topics do not count)")
        return found

    async def find_again(self, admin: Admin) -> list[TopicPartition]:
        """Return the partitions that exist now; none if the broker does not answer."""
        try:
            return self._matching(await admin.describe_topics(None if self._expressions else self.topics))
        except KafkaError:
            return []

    def _matching(self, known: Mapping[str, TopicMetadata]) -> list[TopicPartition]:
        return [
            TopicPartition(name, number)
            for name, topic in known.items()
            if self._matches(name, topic.is_internal)
            for number in topic.partitions
            if not self.partitions or number in self.partitions
        ]

    def _matches(self, name: str, is_internal: bool) -> bool:
        if not self._expressions:
            return name in self.topics
        return not is_internal and any(_covers(one, name) for one in self._expressions)


def _covers(expression: re.Pattern[str], name: str) -> bool:
    return expression.fullmatch(name) is not None
