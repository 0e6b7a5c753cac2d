"""Look up topics, partitions and groups of a cluster, for commands that use the client.

Such commands import `run`, `say` and `on_stop_signals` from here, too; a command that does not use the client imports
them from `ottla.command_line.running`.
"""

import contextlib
from collections.abc import Iterable, Mapping

from client.admin.types import ResourceType
from client.errors import GroupIdNotFoundError, KafkaError, RecordTooLargeError
from client.topic_partition import TopicPartition
from client.wire.metadata import BrokerMetadata, TopicMetadata
from ottla.command_line.clients import Admin, Consumer, Reader
from ottla.command_line.failure import CommandError, explain, suggest
from ottla.command_line.running import on_stop_signals, run, say

__all__ = [
    "check_partition",
    "describe_topics",
    "explain_refusal",
    "find_partitions",
    "has_partition",
    "live_brokers",
    "on_stop_signals",
    "run",
    "say",
    "unknown_group",
]

_MAX_BYTES = "max.message.bytes"


async def describe_topics(admin: Admin, names: Iterable[str] | None) -> dict[str, TopicMetadata]:
    """Return the metadata of these topics, or of all. Raises CommandError for an unknown topic, with similar names."""
    topics = await admin.describe_topics()
    if names is None:
        return topics
    for name in names:
        if name not in topics:
            raise CommandError(f"unknown topic {name}{suggest(name, list(topics))}")
    return {name: topics[name] for name in names}


def has_partition(known: Mapping[str, TopicMetadata], partition: TopicPartition) -> bool:
    """Return whether the cluster has a partition."""
    return partition.topic in known and partition.partition in known[partition.topic].partitions


def check_partition(known: Mapping[str, TopicMetadata], partition: TopicPartition, where: str = "") -> None:
    """Raise CommandError, prefixed with `where`, if a partition does not exist."""
    if partition.topic not in known:
        raise CommandError(f"{where}unknown topic {partition.topic}{suggest(partition.topic, list(known))}")
    if not has_partition(known, partition):
        last = max(known[partition.topic].partitions)
        raise CommandError(f"{where}topic {partition.topic} has partitions 0 to {last}, not {partition.partition}")


async def live_brokers(admin: Admin, wanted: Iterable[int], option: str) -> list[BrokerMetadata]:
    """Return the live brokers with these ids, or all if there is none in `wanted`. Raises CommandError."""
    alive = {broker.node_id: broker for broker in (await admin.describe_cluster()).brokers}
    ids = sorted(set(wanted)) or sorted(alive)
    for broker_id in ids:
        if broker_id not in alive:
            raise CommandError(
                f"{option} {broker_id}: the cluster has no such live broker, only {', '.join(map(str, sorted(alive)))}"
            )
    return [alive[broker_id] for broker_id in ids]


async def unknown_group(admin: Admin, name: str, error: KafkaError) -> Exception:
    """Return the exception to raise for a group's error: a CommandError with similar names if the group is unknown."""
    if not isinstance(error, GroupIdNotFoundError):
        return error
    near = suggest(name, [listing.group_id for listing in await admin.list_groups()])
    return CommandError(f"unknown group {name}{near}")


async def explain_refusal(error: Exception, topic: str, bootstrap_server: str) -> str:
    """Return an error of the producer as one line; for a record that is too large, with the limit of the topic."""
    limit = ""
    if isinstance(error, RecordTooLargeError):
        with contextlib.suppress(KafkaError):
            async with Admin(bootstrap_servers=bootstrap_server) as admin:
                settings = await admin.describe_configs(ResourceType.TOPIC, topic, [_MAX_BYTES])
            limit = f"; {_MAX_BYTES} of {topic} is {settings[_MAX_BYTES].value}"
    return explain(error) + limit


async def find_partitions(
    reader: Reader | Consumer, topic: str, wanted: list[int] | None, bootstrap_server: str
) -> list[int]:
    """Return the partitions of a topic to read: those in `wanted`, or all.

    Raises CommandError if the topic or a partition does not exist.
    """
    try:
        known = await reader.partitions_for(topic)
    except KafkaError as error:
        if error.code is None or error.code.name != "UNKNOWN_TOPIC_OR_PARTITION":
            raise
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            near = suggest(topic, await admin.list_topics())
        raise CommandError(f"unknown topic {topic}{near}") from None
    for number in wanted or ():
        if number not in known:
            raise CommandError(f"topic {topic} has partitions 0 to {max(known)}, not {number}")
    return sorted(set(wanted)) if wanted else known
