"""`ottla topics offsets`: the offset of each partition at a time, at the start or at the end (ListOffsets)."""

import time
from typing import Annotated, Final

import typer

from client.consumer.offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from client.topic_partition import TopicPartition
from ottla.command_line.clients import Admin
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer
from ottla.command_line.output import print_json, print_table
from ottla.command_line.session import run
from ottla.commands.topics.selection import Names, Regex, named_topics
from ottla.records.moments import parse_moment

_NAMED: Final = {"earliest": EARLIEST, "latest": LATEST, "max-timestamp": MAX_TIMESTAMP}


def register(topics: typer.Typer) -> None:
    """Add the command."""
    topics.command(epilog="Example:  ottla topics offsets orders --at 2026-11-21T08:00")(offsets)


def offsets(
    names: Names = None,
    regex: Regex = False,
    at: Annotated[
        str,
        typer.Option(
            "--at",
            metavar="TIME",
            help="Of the first record since this time (ms, 2026-11-21T08:00 or -1h), or one of earliest, latest and"
            " max-timestamp (the record with the greatest timestamp).",
        ),
    ] = "latest",
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Show an offset of each partition: of the first record since a time, the log start offset or the log end offset.

    A partition that has no such record, or no leader, is shown without an offset.
    """
    wanted = _NAMED[at] if at in _NAMED else max(parse_moment(at, "--at", time.time_ns() // 1_000_000), 0)

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            found = await named_topics(admin, names, regex=regex)
            partitions = {
                TopicPartition(name, number): partition
                for name, topic in found.items()
                if names or not topic.is_internal
                for number, partition in topic.partitions.items()
            }
            led = [name for name, partition in partitions.items() if partition.leader >= 0]
            known = await admin.list_offsets(dict.fromkeys(led, wanted)) if led else {}
        rows = [
            (*partition, *((one.offset, one.timestamp) if (one := known.get(partition)) is not None else (-1, -1)))
            for partition in partitions
        ]
        columns = ("topic", "partition", "offset", "timestamp")
        shown = [tuple(None if value == -1 else value for value in row) for row in rows]
        if as_json:
            print_json([dict(zip(columns, row, strict=True)) for row in shown])
        else:
            print_table(columns, shown)

    run(main())
