"""`ottla elect-leaders`: elect the preferred leaders, or, in an unclean election, a replica that is not in sync."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from client.admin.types import ElectionType
from client.errors import ElectionNotNeededError, KafkaError
from client.topic_partition import TopicPartition
from ottla.command_line.clients import Admin
from ottla.command_line.completion import complete_topics
from ottla.command_line.failure import CommandError
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer, parse_topics
from ottla.command_line.output import print_json, print_table
from ottla.command_line.session import check_partition, describe_topics, run
from ottla.reassignment.assignment_file import read_partitions


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("elect-leaders", epilog="Example:  ottla elect-leaders --topic orders --topic clicks:0,2")(
        elect_leaders
    )


def elect_leaders(
    topic: Annotated[
        list[str] | None,
        typer.Option(
            "--topic",
            "-t",
            metavar="TOPIC[:0,1]",
            help="A topic, or some of its partitions. Repeatable.",
            autocompletion=complete_topics,
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            metavar="FILE",
            help='Partitions from JSON: {"partitions":[{"topic":"orders","partition":0}]}. "-" is standard input.',
        ),
    ] = None,
    all_partitions: Annotated[bool, typer.Option("--all", help="Every partition of the cluster.")] = False,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="If no in-sync replica is alive, elect another replica: records that it does not have are lost.",
        ),
    ] = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Make the controller elect the preferred leader (the first replica) of each partition, if it is in sync."""
    if sum((bool(topic), file is not None, all_partitions)) != 1:
        raise CommandError("give one of --topic, --file and --all")

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            wanted = None if all_partitions else await _partitions(admin, topic or (), file)
            outcomes = await admin.elect_leaders(wanted, ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED)
        documents = [_document(partition, error) for partition, error in sorted(outcomes.items())]
        if as_json:
            print_json(documents)
        else:
            rows = [
                (f"{one['topic']}-{one['partition']}", one["error"] or str(one["outcome"]).replace("_", " "))
                for one in documents
            ]
            print_table(("partition", "outcome"), rows)
        failed = [one["error"] for one in documents if one["error"] is not None]
        if failed:
            raise CommandError(f"the election failed for some partitions, the last error: {failed[-1]}")

    run(main())


def _document(partition: TopicPartition, error: KafkaError | None) -> dict[str, object]:
    """Return the outcome for a partition: elected, not_needed or failed; `error` is a text for the last one only."""
    needless = isinstance(error, ElectionNotNeededError)
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "outcome": "elected" if error is None else "not_needed" if needless else "failed",
        "error": None if error is None or needless else str(error),
    }


async def _partitions(admin: Admin, texts: Sequence[str], file: Path | None) -> list[TopicPartition]:
    """Return the selected partitions. Raises CommandError if one does not exist."""
    if file is not None:
        named = read_partitions(file)
        topics = await admin.describe_topics()
        for partition in named:
            check_partition(topics, partition, f"{file}: ")
        return named
    wanted = parse_topics(texts, "--topic")
    topics = await describe_topics(admin, wanted)
    found = [
        TopicPartition(name, number)
        for name, numbers in wanted.items()
        for number in (topics[name].partitions if numbers is None else numbers)
    ]
    for partition in found:
        check_partition(topics, partition)
    return found
