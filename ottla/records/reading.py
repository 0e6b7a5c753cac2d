"""How `ottla consume` reads: assigned partitions over a range of offsets, or as a member of a consumer group."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from client.consumer.fetched import ConsumerRecord
from client.topic_partition import TopicPartition
from ottla.command_line.clients import Admin, Consumer, Reader
from ottla.command_line.session import find_partitions
from ottla.records.offset_range import OffsetRange, Span, resolve
from ottla.records.record_printer import RecordPrinter
from ottla.records.topic_selection import TopicSelection

CLIENT_ID = "ottla-consume"
# How often --follow, and a group with a regular expression, look for new topics and partitions.
NEW_TOPICS_INTERVAL_S = 1.0
_METADATA_MAX_AGE_MS = 300_000
# How often a range is checked for its end if no records arrive: retention may have deleted the rest of it.
_CHECK_MS = 100


@dataclass(frozen=True, slots=True)
class Source:
    """What to read, and where from."""

    topics: TopicSelection
    bootstrap_server: str
    isolation_level: str


async def read_range(source: Source, wanted: OffsetRange, printer: RecordPrinter, *, follow: bool) -> None:
    """Print a range of every partition: up to its end, or with `follow` also the records that are written later.

    The ends are looked up once, at the start. Raises CommandError and the broker's errors.
    """
    async with Reader(
        bootstrap_servers=source.bootstrap_server,
        client_id=CLIENT_ID,
        isolation_level=source.isolation_level,
        auto_offset_reset="earliest",
    ) as reader:
        endless = follow and wanted.end is None
        partitions = await source.topics.find(reader, source.bootstrap_server, may_be_none=endless)
        spans = await resolve(wanted, reader, partitions, follow=follow)
        async with _new_partitions_read(source, reader, spans, enabled=endless):
            await _read_spans(reader, spans, printer, endless=endless)


async def _read_spans(
    reader: Reader, spans: dict[TopicPartition, Span], printer: RecordPrinter, *, endless: bool
) -> None:
    """Print the records of the spans. If `endless`, spans may be added meanwhile."""
    left = {name: span for name, span in spans.items() if span.end is None or span.start < span.end}
    reader.assign({name: span.position for name, span in left.items()})
    reader.stop_at({name: span.end for name, span in left.items() if span.end is not None})
    while (endless or left) and not printer.is_done:
        records = await reader.fetch(timeout_ms=None if endless else _CHECK_MS)
        if records:
            span = spans[TopicPartition(records[0].topic, records[0].partition)]
            await printer.put(_within(span, records))
        if not endless:
            left = {name: span for name, span in left.items() if not _is_read(reader, name, span)}


def _is_read(reader: Reader, name: TopicPartition, span: Span) -> bool:
    return span.end is not None and reader.is_known(name) and reader.position(name) >= span.end


def _within(span: Span, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
    """Return the records of a span: the last batch may have more, and a start after the end finds earlier ones."""
    start, end = span.start, span.end
    if records[0].offset >= start and (end is None or records[-1].offset < end):
        return records
    return [record for record in records if record.offset >= start and (end is None or record.offset < end)]


@contextlib.asynccontextmanager
async def _new_partitions_read(
    source: Source, reader: Reader, spans: dict[TopicPartition, Span], *, enabled: bool
) -> AsyncIterator[None]:
    """While the body runs, also read topics and partitions that are created, from their beginning.

    Raises an error of either one; the other one is cancelled.
    """
    if not enabled:
        yield
        return
    async with Admin(bootstrap_servers=source.bootstrap_server, client_id=CLIENT_ID) as admin:
        try:
            async with asyncio.TaskGroup() as tasks:
                watcher = tasks.create_task(_read_new_partitions(source.topics, admin, reader, spans))
                yield
                watcher.cancel()
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None


async def _read_new_partitions(
    topics: TopicSelection, admin: Admin, reader: Reader, spans: dict[TopicPartition, Span]
) -> None:
    while True:
        await asyncio.sleep(NEW_TOPICS_INTERVAL_S)
        new = [name for name in await topics.find_again(admin) if name not in spans]
        spans.update(dict.fromkeys(new, Span(0, 0, None)))
        reader.incremental_assign(dict.fromkeys(new, "beginning"))


async def read_in_group(source: Source, group: str, auto_offset_reset: str, printer: RecordPrinter) -> None:
    """Print what a member of a group receives, and commit it, until the printer is done.

    Raises CommandError for an unknown topic, and the broker's errors.
    """
    topics = source.topics
    max_age_ms = _METADATA_MAX_AGE_MS if topics.pattern is None else int(NEW_TOPICS_INTERVAL_S * 1000)
    async with Consumer(
        bootstrap_servers=source.bootstrap_server,
        client_id=CLIENT_ID,
        group_id=group,
        auto_offset_reset=auto_offset_reset,
        isolation_level=source.isolation_level,
        allow_auto_create_topics=False,
        metadata_max_age_ms=max_age_ms,
    ) as consumer:
        if topics.pattern is None:
            for topic in topics.topics:
                await find_partitions(consumer, topic, None, source.bootstrap_server)
            await consumer.subscribe(topics.topics)
        else:
            await consumer.subscribe(pattern=topics.pattern)
        while not printer.is_done:
            for records in (await consumer.getmany(max_records=printer.left)).values():
                await printer.put(records)
