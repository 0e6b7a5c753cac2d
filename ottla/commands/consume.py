"""`ottla consume`: print the records of a topic."""

import sys
from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from client.consumer.consumer import Consumer
from client.consumer.fetched import ConsumerRecord
from client.consumer.reader import Reader
from client.consumer.reader_state import Position, Timestamp
from client.topic_partition import TopicPartition
from ottla.command_line.failure import CommandError
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, parse_time
from ottla.command_line.session import find_partitions, run
from ottla.commands.record_format import DEFAULT_FORMAT, format_writer, json_writer

EPILOG = (
    r"Examples:  ottla consume orders --count 10;  ottla consume orders --follow --format '%p@%o %k: %s\n';"
    "  ottla consume orders --timestamp 2026-11-21T08:00 --json"
)
FORMAT_HELP = r"%t topic %p partition %o offset %T time %k key %s value %K %S their lengths %h headers, \n \t \xNN."


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(consume)


def consume(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Only this partition. Repeatable.")
    ] = None,
    from_beginning: Annotated[bool, typer.Option("--from-beginning", help="Start at the first record.")] = False,
    offset: Annotated[
        str | None,
        typer.Option(
            "--offset", "-o", help="Start at this offset: a number, beginning, end, or -N (N before the end)."
        ),
    ] = None,
    timestamp: Annotated[
        str | None, typer.Option("--timestamp", help="Start at the first record since this time (ms or ISO).")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", help="Consume as a member of this group, which commits offsets, until Ctrl-C."),
    ] = None,
    count: Annotated[int | None, typer.Option("--count", "-c", min=0, help="Stop after this many records.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="At the end, wait for new records.")] = False,
    format_: Annotated[str | None, typer.Option("--format", help=FORMAT_HELP)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each record.")] = False,
    null_marker: Annotated[str, typer.Option("--null-marker", "-Z", help="Printed for a null key or value.")] = "",
    isolation_level: Annotated[
        str, typer.Option("--isolation-level", help="read_uncommitted or read_committed.")
    ] = "read_uncommitted",
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Print all records of a topic, or with --follow also new records as they arrive.

    The default start is the beginning, with --follow the end, and with --group the committed offsets.
    """
    if as_json and format_ is not None:
        raise CommandError("--json and --format cannot be used together")
    marker = null_marker.encode("utf-8", "surrogateescape")
    write = json_writer if as_json else format_writer(DEFAULT_FORMAT if format_ is None else format_, marker)
    start = _start(from_beginning, offset, timestamp, follow)
    if group is not None:
        if partition or offset is not None or timestamp is not None:
            raise CommandError("--group cannot be used with --partition, --offset or --timestamp")
        policy = "earliest" if from_beginning else "latest"
        run(_consume_in_group(topic, group, policy, isolation_level, bootstrap_server, count, write))
        return

    run(_consume_partitions(topic, partition, start, follow, isolation_level, bootstrap_server, count, write))


async def _consume_partitions(
    topic: str,
    partitions: list[int] | None,
    start: Position,
    follow: bool,
    isolation_level: str,
    bootstrap_server: str,
    count: int | None,
    write: Callable[[ConsumerRecord], bytes],
) -> None:
    async with Reader(
        bootstrap_servers=bootstrap_server,
        client_id="ottla-consume",
        isolation_level=isolation_level,
        auto_offset_reset="earliest",
    ) as reader:
        numbers = await find_partitions(reader, topic, partitions, bootstrap_server)
        names = [TopicPartition(topic, number) for number in numbers]
        ends = {} if follow else await reader.end_offsets(names)
        reader.assign(await _positions(reader, names, start))
        left = count
        while left is None or left > 0:
            if not follow and all(reader.is_known(name) and reader.position(name) >= ends[name] for name in names):
                break
            records = await reader.fetch(timeout_ms=None if follow else 100)
            if not follow:
                # Only --follow prints records that were written after the command started.
                records = [one for one in records if one.offset < ends[TopicPartition(topic, one.partition)]]
            if left is not None:
                records = records[:left]
                left -= len(records)
            _put_out(records, write)


async def _consume_in_group(
    topic: str,
    group: str,
    auto_offset_reset: str,
    isolation_level: str,
    bootstrap_server: str,
    count: int | None,
    write: Callable[[ConsumerRecord], bytes],
) -> None:
    async with Consumer(
        topic,
        bootstrap_servers=bootstrap_server,
        client_id="ottla-consume",
        group_id=group,
        auto_offset_reset=auto_offset_reset,
        isolation_level=isolation_level,
        allow_auto_create_topics=False,
    ) as consumer:
        await find_partitions(consumer, topic, None, bootstrap_server)
        left = count
        while left is None or left > 0:
            found = await consumer.getmany(max_records=left)
            for records in found.values():
                _put_out(records, write)
                left = None if left is None else left - len(records)


def _put_out(records: Iterable[ConsumerRecord], write: Callable[[ConsumerRecord], bytes]) -> None:
    if written := b"".join([write(record) for record in records]):
        sys.stdout.buffer.write(written)
        sys.stdout.buffer.flush()


def _start(from_beginning: bool, offset: str | None, timestamp: str | None, follow: bool) -> Position:
    """Return the start position; -N means N before the end. Raises CommandError."""
    if from_beginning + (offset is not None) + (timestamp is not None) > 1:
        raise CommandError("give one of --from-beginning, --offset and --timestamp")
    if timestamp is not None:
        return Timestamp(parse_time(timestamp, "--timestamp"))
    if offset is None:
        return "end" if follow and not from_beginning else "beginning"
    if offset == "beginning":
        return "beginning"
    if offset == "end":
        return "end"
    try:
        return int(offset)
    except ValueError:
        raise CommandError(f"--offset {offset!r} must be a number, beginning or end") from None


async def _positions(reader: Reader, names: list[TopicPartition], start: Position) -> dict[TopicPartition, Position]:
    if not isinstance(start, int) or start >= 0:
        return dict.fromkeys(names, start)
    beginnings = await reader.beginning_offsets(names)
    ends = await reader.end_offsets(names)
    return {name: max(beginnings[name], ends[name] + start) for name in names}
