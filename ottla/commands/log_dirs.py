"""`ottla log-dirs`: the log directories of brokers, and the size of every replica in them (DescribeLogDirs)."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from client.admin.types import LogDirDescription
from ottla.command_line.clients import Admin
from ottla.command_line.completion import complete_brokers
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer
from ottla.command_line.output import human_bytes, print_json, print_table
from ottla.command_line.session import live_brokers, run
from ottla.commands.broker_facts import size_of
from ottla.commands.topics.selection import Names, Regex, named_topics
from protocol.error_codes import code_name


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("log-dirs", epilog="Example:  ottla log-dirs orders --broker 1")(log_dirs)


def log_dirs(
    names: Names = None,
    regex: Regex = False,
    broker: Annotated[
        list[int] | None,
        typer.Option("--broker", help="Only this broker. Repeatable.", autocompletion=complete_brokers),
    ] = None,
    summary: Annotated[bool, typer.Option("--summary", help="Only the directories, without the replicas.")] = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Show the log directories of brokers with their free space, and the size and lag of every replica.

    The lag of a replica is in records: behind the high watermark, or, for a replica that is being moved to this
    directory, behind the replica in its old directory.
    """

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            ids = [one.node_id for one in await live_brokers(admin, broker or (), "--broker")]
            topics = set(await named_topics(admin, names, regex=regex)) if names or regex else None
            found = await admin.describe_log_dirs(ids)
        documents = [
            {**directory_document(one), "replicas": [] if summary else _replicas(one, topics)} for one in found
        ]
        if as_json:
            print_json(documents)
            return
        print_directories(documents)
        if not summary:
            print()
            _print_replicas(documents)

    run(main())


def directory_document(log_dir: LogDirDescription) -> dict[str, Any]:
    """Return the document of a log directory, without its replicas. The size is that of all replicas in it."""
    return {
        "broker": log_dir.broker_id,
        "log_dir": log_dir.path,
        "error": code_name(log_dir.error_code) if log_dir.error_code else None,
        "replica_count": len(log_dir.replicas),
        "size_bytes": size_of([log_dir]),
        "usable_bytes": log_dir.usable_bytes if log_dir.usable_bytes >= 0 else None,
        "total_bytes": log_dir.total_bytes if log_dir.total_bytes >= 0 else None,
    }


def _replicas(log_dir: LogDirDescription, topics: set[str] | None) -> list[dict[str, Any]]:
    return [
        {
            "topic": replica.topic,
            "partition": replica.partition,
            "size_bytes": replica.size_bytes,
            "offset_lag": replica.offset_lag if replica.offset_lag >= 0 else None,
            "is_future": replica.is_future,
        }
        for replica in sorted(log_dir.replicas)
        if topics is None or replica.topic in topics
    ]


def print_directories(documents: Iterable[Mapping[str, Any]]) -> None:
    """Print the documents of log directories as a table."""
    rows = [
        (
            one["broker"],
            one["log_dir"],
            one["error"] or "online",
            one["replica_count"],
            *(_bytes(one[key]) for key in ("size_bytes", "usable_bytes", "total_bytes")),
        )
        for one in documents
    ]
    print_table(("broker", "log directory", "state", "replicas", "size", "usable", "total"), rows, long="log directory")


def _bytes(size: int | None) -> str | None:
    return None if size is None else human_bytes(size)


def _print_replicas(documents: Iterable[Mapping[str, Any]]) -> None:
    rows: list[tuple[Any, ...]] = [
        (
            replica["topic"],
            replica["partition"],
            one["broker"],
            _bytes(replica["size_bytes"]),
            replica["offset_lag"],
            "being moved here" if replica["is_future"] else "",
            one["log_dir"],
        )
        for one in documents
        for replica in one["replicas"]
    ]
    columns = ("topic", "partition", "broker", "size", "lag", "", "log directory")
    rows.sort(key=lambda row: row[:3])
    print_table(columns, rows, long="log directory")
