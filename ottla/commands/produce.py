"""`ottla produce`: send the lines of a file or of standard input as records."""

import asyncio
import contextlib
import sys
from functools import partial
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from client.errors import BufferFullError, KafkaError
from client.producer.accumulator import RecordMetadata
from ottla.command_line.clients import Admin, Producer
from ottla.command_line.failure import CommandError, explain, suggest
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer, parse_time, unescape
from ottla.command_line.progress import Progress
from ottla.command_line.retry_warning import warn_of_retries
from ottla.command_line.session import explain_refusal, run, say
from ottla.records.line_source import open_source, read_lines

# Not a limit for records, which the broker sets: it only limits one request.
MAX_REQUEST_SIZE = 100 * 1024 * 1024
# How long to wait for a topic that the broker does not create automatically.
UNKNOWN_TOPIC_MS = 3_000
# How long to wait, after Ctrl-C or a signal, for the acknowledgements of the lines that have been read.
STOP_TIMEOUT_S = 10

EPILOG = (
    "Examples:  echo hello | ottla produce greetings;"
    "  ottla produce orders orders.txt --key-separator : --compression lz4 --header source=import"
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=EPILOG)(produce)


def produce(
    topic: Annotated[str, typer.Argument(help="The topic; created if the broker's auto.create.topics.enable is true.")],
    file: Annotated[Path | None, typer.Argument(help="A file of lines. Default, or -: standard input.")] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.")] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", help=r"Separates key and value of a line (\t for a tab).")
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header. Repeatable.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Send all records to this partition.")
    ] = None,
    compression: Annotated[
        str, typer.Option("--compression", "-z", help="Codec: none, gzip, snappy, lz4 or zstd.")
    ] = "none",
    acks: Annotated[str, typer.Option("--acks", "-a", help="Acknowledgements: all, 1 or 0.")] = "all",
    null_marker: Annotated[
        str | None, typer.Option("--null-marker", "-Z", help="A key or value equal to this becomes null.")
    ] = None,
    timestamp: Annotated[
        str | None, typer.Option("--timestamp", help="Time of every record: ms since the epoch, or ISO.")
    ] = None,
    linger_ms: Annotated[float, typer.Option("--linger-ms", help="How long a batch waits for more records.")] = 5,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing on success.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Send each line as a record, without its newline. Lines may contain any bytes."""
    sending = _Sending(
        topic,
        key=None if key is None else key.encode("utf-8", "surrogateescape"),
        separator=None if key_separator is None else unescape(key_separator, "--key-separator"),
        headers=[_header(text) for text in header or ()],
        partition=partition,
        null_marker=None if null_marker is None else null_marker.encode("utf-8", "surrogateescape"),
        timestamp=None if timestamp is None else parse_time(timestamp, "--timestamp"),
    )
    if sending.separator == b"":
        raise CommandError("--key-separator must not be empty")
    if key is not None and key_separator is not None:
        raise CommandError("--key and --key-separator cannot be used together")

    async def main() -> None:
        async with Producer(
            bootstrap_servers=bootstrap_server,
            client_id="ottla-produce",
            acks=acks,
            compression_type=compression,
            linger_ms=linger_ms,
            max_request_size=MAX_REQUEST_SIZE,
            max_block_ms=UNKNOWN_TOPIC_MS,
        ) as producer:
            await _check_topic(producer, topic, partition, bootstrap_server)
            if file is None or str(file) == "-":
                await sending.run(producer, sys.stdin.buffer)
            else:
                with open_source(file) as source:
                    await sending.run(producer, source)
        if sending.failure is not None:
            line, error = sending.failure
            raise CommandError(f"line {line}: {await explain_refusal(error, topic, bootstrap_server)}") from error

    try:
        run(main())
    except Exception as error:
        if not sending.lines:
            raise
        raise CommandError(f"{explain(error)}; {sending.summary()}") from error
    except BaseException:  # Ctrl-C, SIGTERM, SIGHUP
        if sending.lines and not quiet:
            say("\n" * sys.stdin.isatty() + sending.summary())
        raise
    if not quiet:
        say(sending.summary())


def _header(text: str) -> tuple[str, bytes | None]:
    """Return the name and value of "name=value"; "name" alone has a null value."""
    name, equals, value = text.partition("=")
    return name, value.encode("utf-8", "surrogateescape") if equals else None


async def _check_topic(producer: Producer, topic: str, partition: int | None, bootstrap_server: str) -> None:
    try:
        partitions = await producer.partitions_for(topic)
    except KafkaError as error:
        if error.code is None or error.code.name != "UNKNOWN_TOPIC_OR_PARTITION":
            raise
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            near = suggest(topic, await admin.list_topics())
        raise CommandError(
            f"unknown topic {topic}{near}, and the broker does not create topics automatically"
        ) from None
    if partition is not None and partition not in partitions:
        raise CommandError(f"topic {topic} has partitions 0 to {max(partitions)}, not {partition}")


class _Sending:
    """How to convert lines to records, and the number of records acknowledged."""

    def __init__(
        self,
        topic: str,
        *,
        key: bytes | None,
        separator: bytes | None,
        headers: list[tuple[str, bytes | None]],
        partition: int | None,
        null_marker: bytes | None,
        timestamp: int | None,
    ) -> None:
        self.topic = topic
        self.key = key
        self.separator = separator
        self.headers = headers
        self.partition = partition
        self.null_marker = null_marker
        self.timestamp = timestamp
        self.lines = 0
        self.sent = 0
        # The first line whose record was not written.
        self.failure: tuple[int, Exception] | None = None

    def summary(self) -> str:
        """Return how many records are written: "1 record written to orders"."""
        of = "" if self.sent == self.lines else f" of {self.lines}"
        return f"{self.sent}{of} record{'' if self.sent == self.lines == 1 else 's'} written to {self.topic}"

    async def run(self, producer: Producer, source: BinaryIO) -> None:
        """Send every line of `source`, or all lines before the block in which a record fails; set `failure` then.

        If a line has no key or the task is cancelled, the lines before are written. Raises CommandError.
        """
        limit_s: int | None = None
        with Progress("records", enabled=not source.isatty()) as progress:  # it would overwrite what the user types
            async with warn_of_retries(producer, progress):
                try:
                    await self._send_lines(producer, source, progress)
                except asyncio.CancelledError:
                    limit_s = STOP_TIMEOUT_S
                    raise
                finally:
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(limit_s):
                            await producer.flush()

    async def _send_lines(self, producer: Producer, source: BinaryIO, progress: Progress) -> None:
        """Queue the records until `source` ends or a record fails."""
        async for lines in read_lines(source):
            block: list[asyncio.Future[RecordMetadata]] = []
            done = partial(self._done, self.lines + 1, block)
            for line in lines:
                key, value = self._split(line, self.lines + 1)
                while True:
                    try:
                        future = producer.send_nowait(
                            self.topic,
                            value,
                            key=key,
                            partition=self.partition,
                            timestamp_ms=self.timestamp,
                            headers=self.headers,
                        )
                        break
                    except BufferFullError:
                        await producer.buffer_has_room()
                self.lines += 1
                block.append(future)
                future.add_done_callback(done)
            if self.failure is not None:
                break
            progress.update(self.sent)

    def _split(self, line: bytes, number: int) -> tuple[bytes | None, bytes | None]:
        key: bytes | None = self.key
        value: bytes | None = line
        if self.separator is not None:
            head, separator, tail = line.partition(self.separator)
            if not separator:
                shown = repr(self.separator).removeprefix("b")
                raise CommandError(f"line {number} has no key separator {shown}")
            key, value = head, tail
        if self.null_marker is not None:
            key = None if key == self.null_marker else key
            value = None if value == self.null_marker else value
        return key, value

    def _done(
        self,
        first_line: int,
        block: list[asyncio.Future[RecordMetadata]],
        future: asyncio.Future[RecordMetadata],
    ) -> None:
        """Count a record that is written, or note the line of one that is not. `block` starts at `first_line`."""
        error = future.exception()
        if error is None:
            self.sent += 1
        elif self.failure is None and isinstance(error, Exception):
            self.failure = (first_line + block.index(future), error)
