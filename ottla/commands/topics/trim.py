"""`ottla topics trim`: delete the records before an offset or a time (DeleteRecords)."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from client.consumer.offsets import EARLIEST, LATEST
from client.topic_partition import TopicPartition
from ottla.command_line.clients import Admin
from ottla.command_line.completion import complete_topics
from ottla.command_line.confirmation import Yes, confirm
from ottla.command_line.durations import parse_duration
from ottla.command_line.failure import CommandError
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer
from ottla.command_line.output import counted, print_json, print_table
from ottla.command_line.session import check_partition, describe_topics, run, say
from ottla.reassignment.assignment_file import read_trim_offsets
from ottla.records.moments import parse_moment

_ALL_RECORDS = -1


FromFile = Annotated[
    Path | None,
    typer.Option(
        "--from-file",
        metavar="FILE",
        help='Offsets from JSON: {"partitions":[{"topic":"orders","partition":0,"offset":5}]}. "-" is standard input.',
    ),
]


class _Trim(NamedTuple):
    """The log start offset of a partition before and after, and its log end offset."""

    start: int
    new_start: int
    end: int


class _Target(NamedTuple):
    """The new start of the log: an offset, or the first record since a time in ms."""

    value: int
    is_time: bool


def register(topics: typer.Typer) -> None:
    """Add the command."""
    topics.command(epilog="Example:  ottla topics trim orders --older-than 7d --dry-run")(trim)


def trim(
    name: Annotated[
        str | None, typer.Argument(help="The topic.", metavar="TOPIC", autocompletion=complete_topics)
    ] = None,
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this partition. Repeatable.")
    ] = None,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", min=0, help="Delete the records before this offset.")
    ] = None,
    to_time: Annotated[
        str | None,
        typer.Option(
            "--to-time", metavar="TIME", help="Delete the records before the first one since (ms, or 2026-11-21T08:00)."
        ),
    ] = None,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="DURATION", help="The same, for this long ago: 7d, 36h, PT1H.")
    ] = None,
    to_end: Annotated[bool, typer.Option("--to-end", help="Delete all records; the topic stays.")] = False,
    from_file: FromFile = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
    yes: Yes = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Delete the oldest records of a topic: those before an offset or a time. This cannot be undone.

    The command shows what it will delete; at a terminal, it asks for confirmation. Offsets that it shows are upper
    bounds of the number of records: compaction and transactions leave gaps.
    """
    target = _target(to_offset, to_time, older_than, to_end)
    if (target is None) == (from_file is None):
        raise CommandError("give one of --to-offset, --to-time, --older-than, --to-end and --from-file")
    if (name is None) != (from_file is not None) or (partition and from_file is not None):
        raise CommandError("give a topic, or --from-file without topic and --partition")

    async def plan() -> dict[TopicPartition, _Trim]:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            if target is not None and name is not None:
                return await _planned(admin, await _offsets(admin, name, partition, target))
            assert from_file is not None
            return await _planned(admin, read_trim_offsets(from_file), f"{from_file}: ")

    planned = run(plan())
    work = {one: trim for one, trim in planned.items() if trim.new_start > trim.start}
    if not as_json:
        _print_plan(planned)
    if work and not dry_run:
        # Not inside of `run`: there, Ctrl-C would only be noticed after an answer.
        confirm(f"Delete {_amount(work)}?", yes=yes)
        starts = run(_delete(bootstrap_server, work))
        planned |= {one: trim._replace(new_start=starts[one]) for one, trim in work.items()}
    if as_json:
        print_json([_document(one, trim) for one, trim in planned.items()])
    _say_outcome(work, dry_run=dry_run)


def _target(to_offset: int | None, to_time: str | None, older_than: str | None, to_end: bool) -> _Target | None:
    """Return the target that the options give; None for no option. Raises CommandError for several options."""
    found = []
    now_ms = time.time_ns() // 1_000_000
    if to_offset is not None:
        found.append(_Target(to_offset, is_time=False))
    if to_time is not None:
        found.append(_Target(max(parse_moment(to_time, "--to-time", now_ms), 0), is_time=True))
    if older_than is not None:
        found.append(_Target(max(now_ms - parse_duration(older_than, "--older-than"), 0), is_time=True))
    if to_end:
        found.append(_Target(_ALL_RECORDS, is_time=False))
    if len(found) > 1:
        raise CommandError("--to-offset, --to-time, --older-than and --to-end cannot be used together")
    return found[0] if found else None


async def _offsets(admin: Admin, name: str, numbers: list[int] | None, target: _Target) -> dict[TopicPartition, int]:
    """Return the target as an offset for each partition. Raises CommandError for an unknown topic or partition."""
    known = await describe_topics(admin, [name])
    wanted = [TopicPartition(name, number) for number in sorted(set(numbers or known[name].partitions))]
    for partition in wanted:
        check_partition(known, partition)
    if not target.is_time:
        return dict.fromkeys(wanted, target.value)
    found = await admin.list_offsets(dict.fromkeys(wanted, target.value))
    return {partition: one.offset if one.offset >= 0 else _ALL_RECORDS for partition, one in found.items()}


async def _planned(admin: Admin, wanted: Mapping[TopicPartition, int], where: str = "") -> dict[TopicPartition, _Trim]:
    """Return the plan for partitions; an offset after the log end means the log end, as does _ALL_RECORDS.

    Raises CommandError, prefixed with `where`, for a partition that does not exist.
    """
    known = await admin.describe_topics()
    for partition in wanted:
        check_partition(known, partition, where)
    starts = await admin.list_offsets(dict.fromkeys(wanted, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(wanted, LATEST))
    found = {}
    for partition, offset in wanted.items():
        start, end = starts[partition].offset, ends[partition].offset
        if offset > end:
            say(f"{partition}: {offset} is after the end of the log, which is {end}")
        found[partition] = _Trim(start, end if offset == _ALL_RECORDS else min(max(offset, start), end), end)
    return found


async def _delete(bootstrap_server: str, work: Mapping[TopicPartition, _Trim]) -> dict[TopicPartition, int]:
    """Delete the records, and return the new log start offsets."""
    async with Admin(bootstrap_servers=bootstrap_server) as admin:
        return await admin.delete_records({partition: trim.new_start for partition, trim in work.items()})


def _say_outcome(work: Mapping[TopicPartition, _Trim], *, dry_run: bool) -> None:
    if not work:
        say("there is nothing to delete")
    elif dry_run:
        say("nothing was changed: this is a dry run")
    else:
        say(f"{_amount(work)} deleted")


def _amount(work: Mapping[TopicPartition, _Trim]) -> str:
    offsets = sum(trim.new_start - trim.start for trim in work.values())
    return f"{counted(offsets, 'offset')} of {counted(len(work), 'partition')}"


def _document(partition: TopicPartition, trim: _Trim) -> dict[str, object]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "start_offset": trim.start,
        "new_start_offset": trim.new_start,
        "end_offset": trim.end,
        "deleted_offsets": trim.new_start - trim.start,
    }


def _print_plan(planned: Mapping[TopicPartition, _Trim]) -> None:
    rows = [tuple(_document(partition, trim).values()) for partition, trim in planned.items()]
    print_table(("topic", "partition", "start", "new start", "end", "deleted offsets"), rows)
