"""`ottla consume`: print the records of topics."""

import contextlib
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ottla.command_line.completion import complete_groups, complete_topics
from ottla.command_line.failure import CommandError
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer
from ottla.command_line.session import run
from ottla.records.moments import parse_moment
from ottla.records.offset_range import BEGINNING, END, Anchor, Edge, OffsetRange, parse_range
from ottla.records.reading import Source, read_in_group, read_range
from ottla.records.record_filter import record_filter
from ottla.records.record_format import DEFAULT_FORMAT, FORMAT_HELP, format_writer, json_writer
from ottla.records.record_printer import RecordPrinter, Write
from ottla.records.topic_selection import TopicSelection
from ottla.schemas.options import DecodingOptions, Registry

EPILOG = (
    r"Examples:  ottla consume orders --count 10;  ottla consume orders --follow --format '%p@%o %k: %s\n';"
    "  ottla consume orders --offset @-1h --json;  ottla consume --regex 'orders.*' --grep apple"
)

Topics = Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topics.", autocompletion=complete_topics)]
Regex = Annotated[
    bool,
    typer.Option("--regex", "-r", help="TOPIC is a regular expression for whole names; new topics that match count."),
]
Partitions = Annotated[list[int] | None, typer.Option("--partition", "-p", help="Only this partition. Repeatable.")]
FromBeginning = Annotated[bool, typer.Option("--from-beginning", help="Start at the first record.")]
Offset = Annotated[
    str | None,
    typer.Option(
        "--offset",
        "-o",
        metavar="START[:END]",
        help="A range without END. Each is a number, start, end, +N (N after the start), -N (N before the end) or @TIME"
        " (ms, ISO, or -1h30m before now). After a time, END needs its own @: @-2h:@-1h.",
    ),
]
TimestampOption = Annotated[
    str | None, typer.Option("--timestamp", metavar="TIME", help="Start at the first record since this time.")
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group",
        "-g",
        help="Consume as a member of this group, which commits offsets, until Ctrl-C.",
        autocompletion=complete_groups,
    ),
]
Count = Annotated[
    int | None, typer.Option("--count", "-n", "-c", min=0, help="Stop after this many records (after the filters).")
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="At the end, wait for new records.")]
Grep = Annotated[
    str | None, typer.Option("--grep", metavar="REGEX", help="Only records whose value matches, anywhere in it.")
]
Key = Annotated[
    str | None, typer.Option("--key", "-k", metavar="REGEX", help="Only records whose key matches, anywhere in it.")
]
Header = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", metavar="NAME[=VALUE]", help="Only records with this header. Repeatable."),
]
Format = Annotated[str | None, typer.Option("--format", help=FORMAT_HELP)]
AsJson = Annotated[bool, typer.Option("--json", help="Print a line of JSON for each record.")]
NullMarker = Annotated[str, typer.Option("--null-marker", "-Z", help="Printed for a null key or value.")]
KeySchema = Annotated[
    str | None,
    typer.Option("--key-schema", metavar="SCHEMA", help="As --value-schema, for keys. Default: none."),
]
ValueSchema = Annotated[
    str | None,
    typer.Option(
        "--value-schema",
        metavar="SCHEMA",
        help="Decode values: a FILE (.avsc, .json, .proto or .proto#Message), registry (the default with"
        " --schema-registry: by the id in each value) or none.",
    ),
]
KeepGoing = Annotated[
    bool, typer.Option("--keep-going", help="Print records that do not fit their schema undecoded; exit with 1.")
]
IsolationLevel = Annotated[str, typer.Option("--isolation-level", help="read_uncommitted or read_committed.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(consume)


def consume(
    topic: Topics,
    regex: Regex = False,
    partition: Partitions = None,
    from_beginning: FromBeginning = False,
    offset: Offset = None,
    timestamp: TimestampOption = None,
    group: Group = None,
    count: Count = None,
    follow: Follow = False,
    grep: Grep = None,
    key: Key = None,
    header: Header = None,
    format_: Format = None,
    as_json: AsJson = False,
    null_marker: NullMarker = "",
    key_schema: KeySchema = None,
    value_schema: ValueSchema = None,
    schema_registry: Registry = None,
    keep_going: KeepGoing = False,
    isolation_level: IsolationLevel = "read_uncommitted",
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Print all records of topics, or with --follow also new records as they arrive.

    The default start is the beginning, with --follow the end, and with --group the committed offsets.
    """
    start = _Start(from_beginning, offset, timestamp)
    printer = RecordPrinter(_writer(as_json, format_, null_marker), record_filter(grep, key, header or ()), count)
    topics = TopicSelection(topic, is_regex=regex, partitions=partition or ())
    source = Source(topics, bootstrap_server, isolation_level)
    if group is None:
        reading = read_range(source, start.range(follow=follow), printer, follow=follow)
    else:
        start.check_group()
        if partition:
            raise CommandError("--group cannot be used with --partition: the group assigns the partitions")
        reading = read_in_group(source, group, "earliest" if from_beginning else "latest", printer)
    run(_decoded(reading, printer, DecodingOptions(key_schema, value_schema, schema_registry, keep_going)))


async def _decoded(reading: Coroutine[Any, Any, None], printer: RecordPrinter, options: DecodingOptions) -> None:
    """Read, and decode what is printed."""
    if not options.is_used:
        await reading
        return
    with contextlib.closing(reading):  # if a schema cannot be used, nothing is read
        from ottla.schemas.decoding import opened_decoder  # aiohttp takes 0.2 s, which other commands do not need

        async with opened_decoder(options) as decoder:
            printer.decode = decoder.decode
            await reading


def _writer(as_json: bool, format_: str | None, null_marker: str) -> Write:
    if as_json and format_ is not None:
        raise CommandError("--json and --format cannot be used together")
    marker = null_marker.encode("utf-8", "surrogateescape")
    return json_writer if as_json else format_writer(DEFAULT_FORMAT if format_ is None else format_, marker)


@dataclass(frozen=True, slots=True)
class _Start:
    """The options that name the start, of which only one may be given."""

    from_beginning: bool
    offset: str | None
    timestamp: str | None

    def __post_init__(self) -> None:
        if self.from_beginning + (self.offset is not None) + (self.timestamp is not None) > 1:
            raise CommandError("give one of --from-beginning, --offset and --timestamp")

    def check_group(self) -> None:
        """Raise CommandError if the start is one that a group cannot have."""
        if self.offset is not None or self.timestamp is not None:
            raise CommandError(
                "--group cannot be used with --offset or --timestamp: it starts at its committed offsets"
                " (`ottla groups reset-offsets` changes them)"
            )

    def range(self, *, follow: bool) -> OffsetRange:
        """Return the range to read. Raises CommandError."""
        now_ms = int(time.time() * 1000)
        if self.timestamp is not None:
            return OffsetRange(Edge(Anchor.TIME, parse_moment(self.timestamp, "--timestamp", now_ms)))
        if self.offset is None:
            return OffsetRange(END if follow and not self.from_beginning else BEGINNING)
        wanted = parse_range(self.offset, "--offset", now_ms)
        if follow and wanted.end is not None and wanted.end.anchor is Anchor.TIME:
            raise CommandError("--follow cannot be used with an END that is a time: give an offset, or no END")
        return wanted
