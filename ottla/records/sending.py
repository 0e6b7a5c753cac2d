"""Sends the records of `ottla produce`, and counts those that are acknowledged."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection
from functools import partial

from client.errors import BufferFullError, KafkaError
from client.producer.accumulator import RecordMetadata
from ottla.command_line.clients import Admin, Producer
from ottla.command_line.failure import CommandError, suggest
from ottla.command_line.progress import Progress
from ottla.command_line.retry_warning import warn_of_retries
from ottla.records.outgoing import LineError, OutgoingRecord

# How long to wait, after Ctrl-C or a signal, for the acknowledgements of the lines that have been read.
STOP_TIMEOUT_S = 10

Parse = Callable[[bytes, int], OutgoingRecord | None]
"""From a line and its number to a record; None for a line to skip. Raises LineError."""
# What became of the lines that were read at once, with the topics; None for a line that was skipped.
_Block = list[tuple[asyncio.Future[RecordMetadata], str] | None]


class Sending:
    """How to convert lines to records, and the number of records acknowledged.

    `unit` is what the input consists of, for messages: "line", or "record" if it is generated.
    """

    def __init__(self, parse: Parse, bootstrap_server: str, *, unit: str = "line") -> None:
        self._parse = parse
        self._bootstrap_server = bootstrap_server
        self._unit = unit
        self._partitions: dict[str, frozenset[int]] = {}
        self._lines = 0
        self.records = 0
        self.sent = 0
        # The first line whose record was not written ("line 7"), its topic and its error.
        self.failure: tuple[str, str, Exception] | None = None

    def summary(self) -> str:
        """Return how many records are written: "1 record written to orders"."""
        of = "" if self.sent == self.records else f" of {self.records}"
        topics = list(self._partitions)
        where = "" if not topics else f" to {topics[0]}" if len(topics) == 1 else f" to {len(topics)} topics"
        return f"{self.sent}{of} record{'' if self.sent == self.records == 1 else 's'} written{where}"

    async def check_topic(self, producer: Producer, topic: str) -> Collection[int]:
        """Look up the partitions of a topic. Raises CommandError if it does not exist, KafkaError."""
        try:
            self._partitions[topic] = frozenset(await producer.partitions_for(topic))
        except KafkaError as error:
            if error.code is None or error.code.name != "UNKNOWN_TOPIC_OR_PARTITION":
                raise
            async with Admin(bootstrap_servers=self._bootstrap_server) as admin:
                near = suggest(topic, await admin.list_topics())
            raise CommandError(
                f"unknown topic {topic}{near}, and the broker does not create topics automatically"
            ) from None
        return self._partitions[topic]

    async def run(self, producer: Producer, source: AsyncIterator[list[bytes]], *, is_typed: bool = False) -> None:
        """Send every line of `source`, or all lines before the block in which a record fails; set `failure` then.

        If a line is not a record or the task is cancelled, the lines before are written. `is_typed`: by a person, whose
        input the progress would overwrite. Raises CommandError.
        """
        limit_s: int | None = None
        with Progress("records", enabled=not is_typed) as progress:
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

    async def _send_lines(self, producer: Producer, source: AsyncIterator[list[bytes]], progress: Progress) -> None:
        """Queue the records until `source` ends or a record fails."""
        async for lines in source:
            block: _Block = []
            done = partial(self._done, self._lines + 1, block)
            for line in lines:
                self._lines += 1
                try:
                    record = self._parse(line, self._lines)
                    if record is None:
                        block.append(None)
                        continue
                    if not self._has_partition(record):
                        await self._check_partition(producer, record)
                except LineError as error:
                    raise CommandError(f"{self._unit} {self._lines} {error}") from None
                while True:
                    try:
                        future = producer.send_nowait(
                            record.topic,
                            record.value,
                            key=record.key,
                            partition=record.partition,
                            timestamp_ms=record.timestamp_ms,
                            headers=record.headers,
                        )
                        break
                    except BufferFullError:
                        await producer.buffer_has_room()
                self.records += 1
                block.append((future, record.topic))
                future.add_done_callback(done)
            if self.failure is not None:
                break
            progress.update(self.sent)

    def _has_partition(self, record: OutgoingRecord) -> bool:
        known = self._partitions.get(record.topic)
        return known is not None and (record.partition is None or record.partition in known)

    async def _check_partition(self, producer: Producer, record: OutgoingRecord) -> None:
        """Look up the topic of a record. Raises LineError if it has no such partition, CommandError, KafkaError."""
        known = await self.check_topic(producer, record.topic)
        if record.partition is not None and record.partition not in known:
            raise LineError(
                f"names partition {record.partition}, but topic {record.topic} has partitions 0 to {max(known)}"
            )

    def _done(self, first_line: int, block: _Block, future: asyncio.Future[RecordMetadata]) -> None:
        """Count a record that is written, or note the line of one that is not. `block` starts at `first_line`."""
        error = future.exception()
        if error is None:
            self.sent += 1
        elif self.failure is None and isinstance(error, Exception):
            for line, entry in enumerate(block, first_line):
                if entry is not None and entry[0] is future:
                    self.failure = (f"{self._unit} {line}", entry[1], error)
