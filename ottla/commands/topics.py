"""`ottla topics`: list, create, describe, alter and delete topics."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from client.admin.admin import Admin
from client.admin.types import ConfigChange, ConfigOperation, NewTopic, ResourceType
from client.consumer.offsets import EARLIEST, LATEST
from client.errors import KafkaError, UnsupportedApiError
from client.topic_partition import TopicPartition
from client.wire.metadata import PartitionMetadata, TopicMetadata
from ottla.command_line.failure import CommandError
from ottla.command_line.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    AsJson,
    BootstrapServer,
    parse_assignment,
    parse_pairs,
)
from ottla.command_line.output import human_bytes, print_json, print_table
from ottla.command_line.session import describe_topics, run, say
from protocol.uuid import uuid_to_string

topics = typer.Typer(help="List, create, describe, alter and delete topics.", no_args_is_help=True)

Topic = Annotated[str, typer.Argument(help="The topic's name.")]
Assignment = Annotated[
    str | None,
    typer.Option(
        "--replica-assignment",
        metavar="IDS",
        help="Broker ids of the replicas: colons between replicas, commas between partitions (0:1,1:2).",
    ),
]
Configs = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="A setting of the topic. Repeatable."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(topics, name="topics")


@topics.command("list", epilog="Example:  ottla topics list --json")
def list_topics(
    internal: Annotated[
        bool, typer.Option("--internal", help="Also internal topics such as __consumer_offsets.")
    ] = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """List the topics of the cluster."""

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            found = await admin.describe_topics()
        shown = [topic for topic in found.values() if internal or not topic.is_internal]
        if as_json:
            print_json([{**_counts(topic), "internal": topic.is_internal} for topic in shown])
        else:
            rows = [tuple(_counts(topic).values()) for topic in shown]
            print_table(("topic", "partitions", "replication factor"), rows)

    run(main())


def _counts(topic: TopicMetadata) -> dict[str, Any]:
    replicas = max((len(partition.replicas) for partition in topic.partitions.values()), default=0)
    return {"topic": topic.name, "partitions": len(topic.partitions), "replication_factor": replicas}


@topics.command(epilog="Example:  ottla topics create orders --partitions 8 --config retention.ms=86400000")
def create(
    names: Annotated[list[str], typer.Argument(help="Names of the topics.", metavar="TOPIC...")],
    partitions: Annotated[
        int, typer.Option("--partitions", "-p", help="How many partitions; -1: the broker's num.partitions.")
    ] = -1,
    replication_factor: Annotated[
        int, typer.Option("--replication-factor", "-r", help="How many replicas; -1: the broker's default.")
    ] = -1,
    config: Configs = None,
    replica_assignment: Assignment = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Ignore topics that exist.")] = False,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Only check the request.")] = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Create topics, with counts or with an explicit assignment of replicas."""
    configs: dict[str, str | None] = {**parse_pairs(config, "--config")}
    assignment = parse_assignment(replica_assignment)
    if assignment is not None and (partitions != -1 or replication_factor != -1):
        raise CommandError("--replica-assignment cannot be used with --partitions or --replication-factor")
    numbered = None if assignment is None else dict(enumerate(assignment))

    async def main() -> None:
        wanted = [NewTopic(name, partitions, replication_factor, numbered, configs) for name in names]
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            results = await admin.create_topics(wanted, validate_only=validate_only)
        made = []
        for name, result in results.items():
            if isinstance(result, KafkaError):
                if not (if_not_exists and result.code is not None and result.code.name == "TOPIC_ALREADY_EXISTS"):
                    raise result
                continue
            made.append(
                {
                    "topic": name,
                    "topic_id": uuid_to_string(result.topic_id),
                    "partitions": result.partitions,
                    "replication_factor": result.replication_factor,
                }
            )
        if as_json:
            print_json(made)
            return
        for entry in made:
            done = "would be created" if validate_only else "created"
            print(f"{entry['topic']} {done}: {entry['partitions']} partitions")

    run(main())


@topics.command(epilog="Example:  ottla topics describe orders")
def describe(
    names: Annotated[list[str] | None, typer.Argument(help="Topics. Default: all.", metavar="[TOPIC...]")] = None,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated", help="Only partitions with a replica out of sync.")
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable", help="Only partitions without a leader; combines with --under-replicated.")
    ] = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Show partitions with leader, replicas, offsets and size, and the settings that differ from the defaults.

    --under-replicated and --unavailable also search internal topics.
    """
    wants_all = not (under_replicated or unavailable)

    def is_shown(partition: PartitionMetadata) -> bool:
        is_under_replicated = len(partition.isr) < len(partition.replicas)
        return wants_all or (under_replicated and is_under_replicated) or (unavailable and partition.leader < 0)

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            found = await describe_topics(admin, names)
            described = [
                await _describe(admin, topic, shown)
                for topic in found.values()
                if (shown := [number for number, one in topic.partitions.items() if is_shown(one)])
                and (names or not wants_all or not topic.is_internal)
            ]
        if as_json:
            print_json(described)
            return
        if not wants_all and not described:
            say("no such partition")
        for position, topic in enumerate(described):
            _print_description(topic, len(found[topic["topic"]].partitions), first=position == 0)

    run(main())


async def _describe(admin: Admin, topic: TopicMetadata, shown: Sequence[int]) -> dict[str, Any]:
    """Describe a topic, with the partitions in `shown`."""
    partitions = {number: topic.partitions[number] for number in shown}
    led = [TopicPartition(topic.name, number) for number, one in partitions.items() if one.leader >= 0]
    earliest = await admin.list_offsets(dict.fromkeys(led, EARLIEST)) if led else {}
    latest = await admin.list_offsets(dict.fromkeys(led, LATEST)) if led else {}
    sizes: dict[int, int] = {}
    configs: dict[str, str | None] = {}
    try:
        for log_dir in await admin.describe_log_dirs():
            for replica in log_dir.replicas:
                if replica.is_future or replica.topic != topic.name:
                    continue
                if log_dir.broker_id == topic.partitions[replica.partition].leader:
                    sizes[replica.partition] = replica.size_bytes
        entries = await admin.describe_configs(ResourceType.TOPIC, topic.name)
        configs = {entry.name: entry.value for entry in entries.values() if not entry.is_default}
    except UnsupportedApiError:
        pass  # an old broker, or one that does not implement all APIs: show what is available
    except KafkaError as error:
        if not error.retriable:
            raise
    return {
        "topic": topic.name,
        "topic_id": uuid_to_string(topic.topic_id),
        "internal": topic.is_internal,
        "configs": configs,
        "partitions": [
            {
                "partition": number,
                "leader": one.leader if one.leader >= 0 else None,
                "leader_epoch": one.leader_epoch,
                "replicas": list(one.replicas),
                "isr": list(one.isr),
                "offline": list(one.offline_replicas),
                "start_offset": _offset(earliest, TopicPartition(topic.name, number)),
                "end_offset": _offset(latest, TopicPartition(topic.name, number)),
                "size_bytes": sizes.get(number),
            }
            for number, one in partitions.items()
        ],
    }


def _offset(found: Any, partition: Any) -> int | None:
    return found[partition].offset if partition in found else None


def _print_description(topic: dict[str, Any], count: int, *, first: bool) -> None:
    partitions = topic["partitions"]
    if not first:
        print()
    replicas = max((len(partition["replicas"]) for partition in partitions), default=0)
    size = human_bytes(sum(partition["size_bytes"] or 0 for partition in partitions))
    part = "" if len(partitions) == count else f"{len(partitions)} of "
    print(f"{topic['topic']}  id {topic['topic_id']}, {part}{count} partitions, replication factor {replicas}, {size}")
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


@topics.command(epilog="Example:  ottla topics alter orders --partitions 16 --config retention.ms=3600000")
def alter(
    name: Topic,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", help="The new number of partitions; it must be larger.")
    ] = None,
    replica_assignment: Assignment = None,
    config: Configs = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="NAME", help="Reset this setting to the default. Repeatable."),
    ] = None,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Only check the request.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Add partitions to a topic (--replica-assignment names their replicas), or change its settings."""
    settings = parse_pairs(config, "--config")
    assignment = parse_assignment(replica_assignment)
    if partitions is None and not settings and not delete_config:
        raise CommandError("nothing to alter: give --partitions, --config or --delete-config")
    if assignment is not None and partitions is None:
        raise CommandError("--replica-assignment needs --partitions")

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            await describe_topics(admin, [name])
            if partitions is not None:
                await admin.create_partitions(name, partitions, assignment=assignment, validate_only=validate_only)
            changes = [ConfigChange(key, value) for key, value in settings.items()]
            changes += [ConfigChange(key, None, ConfigOperation.DELETE) for key in delete_config or ()]
            if changes:
                await admin.incremental_alter_configs(ResourceType.TOPIC, name, changes, validate_only=validate_only)

    run(main())
    print(f"{name} {'could be altered' if validate_only else 'altered'}")


@topics.command(epilog="Example:  ottla topics delete orders")
def delete(
    names: Annotated[list[str], typer.Argument(help="Names of the topics.", metavar="TOPIC...")],
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Ignore topics that do not exist.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Delete topics with all their records. This cannot be undone."""

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            known = await admin.describe_topics()
            if not if_exists:
                await describe_topics(admin, names)
            errors = await admin.delete_topics([name for name in names if name in known])
        for name, error in errors.items():
            if error is not None:
                raise error
            print(f"{name} deleted")

    run(main())
