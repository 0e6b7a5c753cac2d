"""`ottla topics`: list, create, alter and delete topics; the other modules of the folder have the other commands."""

from typing import Annotated, Any

import typer

from client.admin.types import ConfigChange, ConfigOperation, NewTopic, ResourceType
from client.errors import KafkaError
from client.wire.metadata import TopicMetadata
from ottla.command_line.clients import Admin
from ottla.command_line.completion import complete_topic_setting_names, complete_topic_settings, complete_topics
from ottla.command_line.confirmation import Yes, confirm
from ottla.command_line.failure import CommandError
from ottla.command_line.options import (
    DEFAULT_BOOTSTRAP_SERVER,
    AsJson,
    BootstrapServer,
    parse_assignment,
    parse_pairs,
)
from ottla.command_line.output import counted, print_json, print_table
from ottla.command_line.session import describe_topics, run
from ottla.commands.topics import description, offsets, trim
from ottla.commands.topics.selection import (
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

topics = typer.Typer(help="List, create, describe, alter, trim and delete topics.", no_args_is_help=True)

Topic = Annotated[str, typer.Argument(help="The topic's name.", autocompletion=complete_topics)]
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
    typer.Option(
        "--config",
        "-c",
        metavar="NAME=VALUE",
        help="A setting of the topic. Repeatable.",
        autocompletion=complete_topic_settings,
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    description.register(topics)
    offsets.register(topics)
    trim.register(topics)
    app.add_typer(topics, name="topics")


@topics.command("list", epilog="Example:  ottla topics list --regex 'orders\\..*'")
def list_topics(
    names: Names = None,
    regex: Regex = False,
    internal: Annotated[
        bool, typer.Option("--internal", help="Also internal topics such as __consumer_offsets.")
    ] = False,
    under_replicated: UnderReplicated = False,
    unavailable: Unavailable = False,
    at_min_isr: AtMinIsr = False,
    under_min_isr: UnderMinIsr = False,
    with_overrides: WithOverrides = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """List the topics of the cluster; with the state of a partition, the topics that have such a partition.

    Names, --regex and the states of partitions also find internal topics.
    """
    wanted = PartitionFilter(under_replicated, unavailable, at_min_isr, under_min_isr)
    hides_internal = not (internal or names) and wanted.selects_all

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            found = await named_topics(admin, names, regex=regex)
            if with_overrides:
                found = await topics_with_overrides(admin, found)
            if not wanted.selects_all:
                found = {name: found[name] for name in await partitions_in_state(admin, found, wanted)}
        shown = [topic for topic in found.values() if not (hides_internal and topic.is_internal)]
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
    names: Annotated[list[str], typer.Argument(help="Names of the topics.", metavar="TOPIC")],
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
        made: list[dict[str, Any]] = []
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
            print(f"{entry['topic']} {done}: {counted(entry['partitions'], 'partition')}")

    run(main())


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
        typer.Option(
            "--delete-config",
            metavar="NAME",
            help="Reset this setting to the default. Repeatable.",
            autocompletion=complete_topic_setting_names,
        ),
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
    names: Annotated[
        list[str], typer.Argument(help="Names of the topics.", metavar="TOPIC", autocompletion=complete_topics)
    ],
    regex: Regex = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Ignore topics that do not exist.")] = False,
    yes: Yes = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Delete topics with all their records. This cannot be undone.

    At a terminal, the command asks for confirmation. --regex never matches internal topics.
    """
    if regex and if_exists:
        raise CommandError("--regex and --if-exists cannot be used together")

    async def find() -> list[str]:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            if if_exists:
                known = await admin.describe_topics()
                return [name for name in dict.fromkeys(names) if name in known]
            found = await named_topics(admin, names, regex=regex)
        return [name for name, topic in found.items() if not (regex and topic.is_internal)]

    async def main(wanted: list[str]) -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            errors = await admin.delete_topics(wanted)
        for name, error in errors.items():
            if error is not None:
                raise error
            print(f"{name} deleted")

    wanted = run(find())
    if not wanted:
        return
    confirm(f"Delete {', '.join(wanted)} with all records?", yes=yes)
    run(main(wanted))
