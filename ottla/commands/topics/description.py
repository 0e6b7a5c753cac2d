"""`ottla topics describe`: partitions with leader, replicas, offsets and size, and the settings of a topic."""

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from client.admin.types import ConfigEntry
from client.consumer.offsets import EARLIEST, LATEST, OffsetAndTimestamp
from client.errors import KafkaError, UnsupportedApiError
from client.topic_partition import TopicPartition
from client.wire.metadata import TopicMetadata
from ottla.command_line.clients import Admin
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer
from ottla.command_line.output import counted, human_bytes, print_json, print_table
from ottla.command_line.session import run, say
from ottla.commands.topics.selection import (
    MIN_ISR,
    AtMinIsr,
    Names,
    PartitionFilter,
    Regex,
    Unavailable,
    UnderMinIsr,
    UnderReplicated,
    WithOverrides,
    named_topics,
    partitions_in_state,
    topics_with_overrides,
)
from protocol.uuid import uuid_to_string


def register(topics: typer.Typer) -> None:
    """Add the command."""
    topics.command(epilog="Example:  ottla topics describe orders")(describe)


def describe(
    names: Names = None,
    regex: Regex = False,
    under_replicated: UnderReplicated = False,
    unavailable: Unavailable = False,
    at_min_isr: AtMinIsr = False,
    under_min_isr: UnderMinIsr = False,
    with_overrides: WithOverrides = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Show partitions with leader, replicas, offsets and size, and the settings that differ from the defaults.

    Several states of partitions may be given: a partition in one of them is shown. They also search internal topics.
    """
    wanted = PartitionFilter(under_replicated, unavailable, at_min_isr, under_min_isr)

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            found = await named_topics(admin, names, regex=regex)
            if not names and wanted.selects_all:
                found = {name: topic for name, topic in found.items() if not topic.is_internal}
            if with_overrides:
                found = await topics_with_overrides(admin, found)
            described = await _describe(admin, found, await partitions_in_state(admin, found, wanted))
        if as_json:
            print_json(described)
            return
        if not wanted.selects_all and not described:
            say("no such partition")
        for position, topic in enumerate(described):
            _print_description(topic, len(found[topic["topic"]].partitions), first=position == 0)

    run(main())


async def _describe(
    admin: Admin, topics: Mapping[str, TopicMetadata], shown: Mapping[str, Sequence[int]]
) -> list[dict[str, Any]]:
    """Return the documents of the topics in `shown`, with these partitions of them."""
    partitions = {
        TopicPartition(name, number): topics[name].partitions[number] for name in shown for number in shown[name]
    }
    leaders = {partition: one.leader for partition, one in partitions.items() if one.leader >= 0}
    earliest = await admin.list_offsets(dict.fromkeys(leaders, EARLIEST)) if leaders else {}
    latest = await admin.list_offsets(dict.fromkeys(leaders, LATEST)) if leaders else {}
    sizes = await _sizes(admin, leaders)
    configs = await _configs(admin, list(shown))
    documents = []
    for name, numbers in shown.items():
        entries = configs.get(name, {})
        documents.append(
            {
                "topic": name,
                "topic_id": uuid_to_string(topics[name].topic_id),
                "internal": topics[name].is_internal,
                "configs": {entry.name: entry.value for entry in entries.values() if not entry.is_default},
                "min_insync_replicas": _min_isr(entries),
                "partitions": [
                    {
                        "partition": number,
                        "leader": one.leader if one.leader >= 0 else None,
                        "leader_epoch": one.leader_epoch,
                        "replicas": list(one.replicas),
                        "isr": list(one.isr),
                        "offline": list(one.offline_replicas),
                        "start_offset": _offset(earliest, partition),
                        "end_offset": _offset(latest, partition),
                        "size_bytes": sizes.get(partition),
                    }
                    for number in numbers
                    for partition in (TopicPartition(name, number),)
                    for one in (partitions[partition],)
                ],
            }
        )
    return documents


def _offset(found: Mapping[TopicPartition, OffsetAndTimestamp], partition: TopicPartition) -> int | None:
    return found[partition].offset if partition in found else None


def _min_isr(entries: Mapping[str, ConfigEntry]) -> int | None:
    value = entries[MIN_ISR].value if MIN_ISR in entries else None
    return None if value is None else int(value)


async def _sizes(admin: Admin, leaders: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Return the sizes of the leaders' logs, in bytes; empty if a broker is too old or cannot be reached."""
    found = {}
    try:
        for log_dir in await admin.describe_log_dirs(sorted(set(leaders.values()))):
            for replica in log_dir.replicas:
                partition = TopicPartition(replica.topic, replica.partition)
                if not replica.is_future and leaders.get(partition) == log_dir.broker_id:
                    found[partition] = replica.size_bytes
    except UnsupportedApiError:
        return {}
    except KafkaError as error:
        if not error.retriable:
            raise
    return found


async def _configs(admin: Admin, names: Sequence[str]) -> dict[str, dict[str, ConfigEntry]]:
    """Return the settings of topics; without those of a topic that is gone, and empty if the broker is too old."""
    try:
        found = await admin.describe_topic_configs(names)
    except UnsupportedApiError:
        return {}
    return {name: settings for name, settings in found.items() if not isinstance(settings, KafkaError)}


def _print_description(topic: dict[str, Any], count: int, *, first: bool) -> None:
    partitions = topic["partitions"]
    if not first:
        print()
    replicas = max((len(partition["replicas"]) for partition in partitions), default=0)
    size = human_bytes(sum(partition["size_bytes"] or 0 for partition in partitions))
    part = "" if len(partitions) == count else f"{len(partitions)} of "
    partitions_text = f"{part}{counted(count, 'partition')}"
    print(f"{topic['topic']}  id {topic['topic_id']}, {partitions_text}, replication factor {replicas}, {size}")
    for name, value in topic["configs"].items():
        print(f"  {name}={value}")
    columns = ("partition", "leader", "epoch", "replicas", "isr", "offline", "start", "end", "size")
    rows = [
        (
            one["partition"],
            one["leader"],
            one["leader_epoch"],
            ",".join(map(str, one["replicas"])),
            ",".join(map(str, one["isr"])),
            ",".join(map(str, one["offline"])) or "-",
            one["start_offset"],
            one["end_offset"],
            None if one["size_bytes"] is None else human_bytes(one["size_bytes"]),
        )
        for one in partitions
    ]
    print_table(columns, rows)
