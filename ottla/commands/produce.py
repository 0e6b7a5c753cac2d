"""`ottla produce`: send the lines of a file or of standard input, or generated records."""

import contextlib
import random
import sys
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ottla.command_line.clients import Producer
from ottla.command_line.completion import complete_topics
from ottla.command_line.failure import CommandError, explain
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, parse_time, unescape
from ottla.command_line.session import explain_refusal, run, say
from ottla.records.line_source import open_source, read_lines
from ottla.records.outgoing import Encode, JsonLines, PlainLines, RecordDefaults
from ottla.records.sending import Parse, Sending
from ottla.records.template import PLACEHOLDERS, Template, generate
from ottla.schemas.options import EncodingOptions, Registry
from protocol.record import Header

# Not a limit for records, which the broker sets: it only limits one request.
MAX_REQUEST_SIZE = 100 * 1024 * 1024
# How long to wait for a topic that the broker does not create automatically.
UNKNOWN_TOPIC_MS = 3_000
DEFAULT_COUNT = 10

EPILOG = (
    "Examples:  echo hello | ottla produce greetings;"
    "  ottla produce orders orders.txt --key-separator : --compression lz4 --header source=import;"
    "  ottla consume orders --json | ottla produce copy --json;"
    """  ottla produce orders --template '{"id": {n}, "user": "{uuid}"}' --count 1000"""
)

TopicArgument = Annotated[
    str | None,
    typer.Argument(
        help="The topic; created if the broker's auto.create.topics.enable is true. With --json optional.",
        autocompletion=complete_topics,
    ),
]
File = Annotated[Path | None, typer.Argument(help="A file of lines. Default, or -: standard input.")]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Lines are JSON objects: topic, key, value, headers, partition, timestamp."),
]
TemplateText = Annotated[
    str | None,
    typer.Option("--template", metavar="TEXT", help=f"Generate records instead of reading lines: {PLACEHOLDERS}."),
]
Count = Annotated[
    int | None,
    typer.Option("--count", "-n", min=0, help=f"How many records --template generates. Default: {DEFAULT_COUNT}."),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Makes the random values of --template repeatable.")]
Key = Annotated[
    str | None, typer.Option("--key", "-k", help="The key of every record; with --template, also a template.")
]
KeySeparator = Annotated[
    str | None, typer.Option("--key-separator", "-K", help=r"Separates key and value of a line (\t for a tab).")
]
HeaderOption = Annotated[
    list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header. Repeatable.")
]
Partition = Annotated[int | None, typer.Option("--partition", "-p", help="Send all records to this partition.")]
Compression = Annotated[str, typer.Option("--compression", "-z", help="Codec: none, gzip, snappy, lz4 or zstd.")]
Acks = Annotated[str, typer.Option("--acks", "-a", help="Acknowledgements: all, 1 or 0.")]
NullMarker = Annotated[
    str | None, typer.Option("--null-marker", "-Z", help="A key or value equal to this becomes null.")
]
TimestampOption = Annotated[
    str | None, typer.Option("--timestamp", help="Time of every record: ms since the epoch, or ISO.")
]
KeySchema = Annotated[str | None, typer.Option("--key-schema", metavar="SCHEMA", help="As --value-schema, for keys.")]
ValueSchema = Annotated[
    str | None,
    typer.Option(
        "--value-schema",
        metavar="SCHEMA",
        help="Values are JSON, and are encoded: a FILE (.avsc, .json, .proto or .proto#Message), or an ID or SUBJECT of"
        " --schema-registry.",
    ),
]
LingerMs = Annotated[float, typer.Option("--linger-ms", help="How long a batch waits for more records.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing on success.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(produce)


def produce(
    topic: TopicArgument = None,
    file: File = None,
    as_json: AsJson = False,
    template: TemplateText = None,
    count: Count = None,
    seed: Seed = None,
    key: Key = None,
    key_separator: KeySeparator = None,
    header: HeaderOption = None,
    partition: Partition = None,
    compression: Compression = "none",
    acks: Acks = "all",
    null_marker: NullMarker = None,
    timestamp: TimestampOption = None,
    key_schema: KeySchema = None,
    value_schema: ValueSchema = None,
    schema_registry: Registry = None,
    linger_ms: LingerMs = 5,
    quiet: Quiet = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Send each line as a record, without its newline. Lines may contain any bytes.

    With --json, lines are records as `ottla consume --json` prints them. The options --key, --header, --partition and
    --timestamp then apply to records without this field.
    """
    source = _Input(file, template, count, seed)
    encode_key, encode_value = _encoders(EncodingOptions(key_schema, value_schema, schema_registry))
    defaults = RecordDefaults(
        topic=topic,
        key=source.keys(key),
        headers=[_header(text) for text in header or ()],
        partition=partition,
        timestamp_ms=None if timestamp is None else parse_time(timestamp, "--timestamp"),
        encode_key=encode_key,
        encode_value=encode_value,
    )
    if key is not None and key_separator is not None:
        raise CommandError("--key and --key-separator cannot be used together")
    parse = _parser(defaults, as_json, key_separator, null_marker)
    sending = Sending(parse, bootstrap_server, unit="line" if template is None else "record")
    options = _ProducerOptions(bootstrap_server, acks, compression, linger_ms)
    _run(_send(sending, source, options, topic, partition), sending, quiet=quiet)


def _header(text: str) -> Header:
    """Return the name and value of "name=value"; "name" alone has a null value."""
    name, equals, value = text.partition("=")
    return name, value.encode("utf-8", "surrogateescape") if equals else None


def _encoders(options: EncodingOptions) -> tuple[Encode | None, Encode | None]:
    """Return what encodes keys and values."""
    if not options.is_used:
        if options.registry is not None:
            raise CommandError("--schema-registry needs --value-schema or --key-schema: the schema to write with")
        return None, None
    from ottla.schemas.encoding import load_encoders  # aiohttp takes 0.2 s, which other commands do not need

    return run(load_encoders(options))


def _parser(defaults: RecordDefaults, as_json: bool, key_separator: str | None, null_marker: str | None) -> Parse:
    if as_json:
        for option, value in (("--key-separator", key_separator), ("--null-marker", null_marker)):
            if value is not None:
                raise CommandError(f"--json and {option} cannot be used together")
        return JsonLines(defaults)
    separator = None if key_separator is None else unescape(key_separator, "--key-separator")
    if separator == b"":
        raise CommandError("--key-separator must not be empty")
    marker = None if null_marker is None else null_marker.encode("utf-8", "surrogateescape")
    return PlainLines(defaults, separator=separator, null_marker=marker)


class _Input:
    """Where the lines come from: a file, standard input, or a template."""

    def __init__(self, file: Path | None, template: str | None, count: int | None, seed: int | None) -> None:
        self._file = None if file is None or str(file) == "-" else file
        self._random = random.Random(seed)
        self._template: Template | None = None
        self._count = DEFAULT_COUNT if count is None else count
        if template is not None:
            if file is not None:
                raise CommandError("--template and a file cannot be used together")
            self._template = Template(template, "--template", self._random)
        elif count is not None or seed is not None:
            raise CommandError("--count and --seed need --template")

    def keys(self, key: str | None) -> Callable[[int], bytes | None]:
        """Return the function that makes the key of a record from its number."""
        if key is not None and self._template is not None:
            return Template(key, "--key", self._random)
        content = None if key is None else key.encode("utf-8", "surrogateescape")
        return lambda _: content

    @property
    def is_typed(self) -> bool:
        """Whether a person types the lines."""
        return self._template is None and self._file is None and sys.stdin.buffer.isatty()

    @contextlib.contextmanager
    def opened(self) -> Iterator[AsyncIterator[list[bytes]]]:
        """Open the source of blocks of lines. Raises OSError."""
        if self._template is not None:
            yield generate(self._template, self._count)
        elif self._file is None:
            yield read_lines(sys.stdin.buffer)
        else:
            with open_source(self._file) as source:
                yield read_lines(source)


@dataclass(frozen=True, slots=True)
class _ProducerOptions:
    bootstrap_server: str
    acks: str
    compression: str
    linger_ms: float


async def _send(
    sending: Sending, source: _Input, options: _ProducerOptions, topic: str | None, partition: int | None
) -> None:
    """Send everything. Raises CommandError for the first record that is not written, and the broker's errors."""
    async with Producer(
        bootstrap_servers=options.bootstrap_server,
        client_id="ottla-produce",
        acks=options.acks,
        compression_type=options.compression,
        linger_ms=options.linger_ms,
        max_request_size=MAX_REQUEST_SIZE,
        max_block_ms=UNKNOWN_TOPIC_MS,
    ) as producer:
        if topic is not None:
            _check_partition(topic, partition, await sending.check_topic(producer, topic))
        with source.opened() as lines:
            await sending.run(producer, lines, is_typed=source.is_typed)
    if sending.failure is not None:
        line, failed, error = sending.failure
        raise CommandError(f"{line}: {await explain_refusal(error, failed, options.bootstrap_server)}") from error


def _check_partition(topic: str, partition: int | None, known: Collection[int]) -> None:
    if partition is not None and partition not in known:
        raise CommandError(f"topic {topic} has partitions 0 to {max(known)}, not {partition}")


def _run(main: Coroutine[Any, Any, None], sending: Sending, *, quiet: bool) -> None:
    """Run the command and say how many records are written, also if it fails or is stopped."""
    try:
        run(main)
    except Exception as error:
        if not sending.records:
            raise
        raise CommandError(f"{explain(error)}; {sending.summary()}") from error
    except BaseException:  # Ctrl-C, SIGTERM, SIGHUP
        if sending.records and not quiet:
            say("\n" * sys.stdin.isatty() + sending.summary())
        raise
    if not quiet:
        say(sending.summary())
