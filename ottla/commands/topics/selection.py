"""Which topics and partitions `ottla topics` selects: by name, by regular expression, by the state of partitions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, NamedTuple

import typer

from client.errors import KafkaError, UnsupportedApiError
from client.topic_partition import TopicPartition
from client.wire.metadata import PartitionMetadata, TopicMetadata
from ottla.command_line.clients import Admin
from ottla.command_line.completion import complete_topics
from ottla.command_line.failure import CommandError
from ottla.command_line.session import describe_topics
from ottla.records.record_filter import compile_expression

MIN_ISR = "min.insync.replicas"

Names = Annotated[
    list[str] | None, typer.Argument(help="Topics. Default: all.", metavar="TOPIC", autocompletion=complete_topics)
]
Regex = Annotated[
    bool,
    typer.Option("--regex", "-r", help="TOPIC is a regular expression (Python's) that matches the whole name."),
]
UnderReplicated = Annotated[
    bool, typer.Option("--under-replicated", help="Only partitions with a replica out of sync.")
]
Unavailable = Annotated[bool, typer.Option("--unavailable", "--offline", help="Only partitions without a leader.")]
AtMinIsr = Annotated[
    bool, typer.Option("--at-min-isr", help=f"Only partitions with exactly {MIN_ISR} replicas in sync.")
]
UnderMinIsr = Annotated[
    bool, typer.Option("--under-min-isr", help=f"Only partitions with fewer than {MIN_ISR} replicas in sync.")
]
WithOverrides = Annotated[bool, typer.Option("--with-overrides", help="Only topics that have settings of their own.")]


class PartitionFilter(NamedTuple):
    """The states to search for. A partition is selected if it is in one of them; without a state, all are."""

    under_replicated: bool
    unavailable: bool
    at_min_isr: bool
    under_min_isr: bool

    @property
    def selects_all(self) -> bool:
        """Whether no state is given."""
        return not any(self)

    def selects(self, partition: PartitionMetadata, adding: int, min_isr: int | None) -> bool:
        """Return whether a partition is in one of the states.

        `adding` is the number of replicas that a reassignment adds: as long as they copy, they are not out of sync.
        `min_isr` is the topic's min.insync.replicas, None if it is unknown. A partition without a leader is under it.
        """
        in_sync = len(partition.isr)
        has_leader = partition.leader >= 0
        return (
            self.selects_all
            or (self.under_replicated and in_sync < len(partition.replicas) - adding)
            or (self.unavailable and not has_leader)
            or (self.at_min_isr and in_sync == min_isr)
            or (self.under_min_isr and (not has_leader or (min_isr is not None and in_sync < min_isr)))
        )


async def named_topics(admin: Admin, names: Sequence[str] | None, *, regex: bool) -> dict[str, TopicMetadata]:
    """Return the metadata of these topics, of those that match one of the regular expressions, or of all topics.

    Raises CommandError for an unknown topic, with similar names, and for an expression that matches no topic.
    """
    if not regex:
        return await describe_topics(admin, names or None)
    if not names:
        raise CommandError("--regex needs a regular expression: give it in place of TOPIC")
    expressions = [compile_expression(name, "--regex") for name in names]
    topics = await admin.describe_topics()
    for expression in expressions:
        if not any(expression.fullmatch(name) for name in topics):
            raise CommandError(f"no topic matches {expression.pattern!r}")
    return {
        name: topic for name, topic in topics.items() if any(expression.fullmatch(name) for expression in expressions)
    }


async def partitions_in_state(
    admin: Admin, topics: Mapping[str, TopicMetadata], wanted: PartitionFilter
) -> dict[str, list[int]]:
    """Return the selected partitions by topic; topics without one are left out."""
    min_isr = await _min_isr(admin, topics) if wanted.at_min_isr or wanted.under_min_isr else {}
    adding = await _adding(admin, topics) if wanted.under_replicated else {}
    found = {
        name: [
            number
            for number, partition in topic.partitions.items()
            if wanted.selects(partition, adding.get(TopicPartition(name, number), 0), min_isr.get(name))
        ]
        for name, topic in topics.items()
    }
    return {name: numbers for name, numbers in found.items() if numbers}


async def _min_isr(admin: Admin, topics: Iterable[str]) -> dict[str, int]:
    found = {}
    for name, settings in (await admin.describe_topic_configs(topics, [MIN_ISR])).items():
        value = None if isinstance(settings, KafkaError) or MIN_ISR not in settings else settings[MIN_ISR].value
        if value is not None:
            found[name] = int(value)
    return found


async def _adding(admin: Admin, topics: Mapping[str, TopicMetadata]) -> dict[TopicPartition, int]:
    """Return how many replicas are being added to the partitions that have a replica out of sync."""
    behind = [
        TopicPartition(name, number)
        for name, topic in topics.items()
        for number, one in topic.partitions.items()
        if len(one.isr) < len(one.replicas)
    ]
    if not behind:
        return {}
    try:
        moving = await admin.list_partition_reassignments()
    except UnsupportedApiError:  # a broker older than 2.4
        return {}
    return {partition: len(moving[partition].adding) for partition in behind if partition in moving}


async def topics_with_overrides(admin: Admin, topics: Mapping[str, TopicMetadata]) -> dict[str, TopicMetadata]:
    """Return the topics that have settings of their own."""
    described = await admin.describe_topic_configs(topics)
    return {
        name: topic
        for name, topic in topics.items()
        if not isinstance(settings := described[name], KafkaError)
        and any(entry.is_topics_own for entry in settings.values())
    }
