"""The records of a topic: pages of them, and one record with all of its key and value."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from client.errors import OffsetOutOfRangeError
from client.topic_partition import TopicPartition
from console.messages.answers import RecordAnswer, record_answer
from console.messages.cursor import cursor_text
from console.messages.partition_log import PartitionLog
from console.messages.selection import DECODERS, SELECTION, Selection, decoder_of, limit_of
from console.messages.stored_record import StoredRecord
from console.messages.topic_log import Page
from console.rest.call import Call
from console.rest.errors import RestError, not_found
from console.rest.models import Answer
from console.rest.operation import ApiOperation, Parameter, Right
from security.acls.types import Operation, ResourceType

_MAX_OFFSET: Final = 2**63 - 2
_ONE_RECORD: Final = 64 * 1024
"""Bytes of a Fetch for one record; its batch is returned whole."""
READ: Final = Right(Operation.READ, ResourceType.TOPIC, "topic_name")


class PartitionRange(Answer):
    """The offsets of a partition: its first one, and the one after its last record."""

    partition: int
    start: int
    end: int


class PartitionProblem(Answer):
    """Why the records of a partition are not shown."""

    partition: int
    message: str


class RecordPage(Answer):
    """A page of records, in the order in which they were asked for."""

    records: list[RecordAnswer]
    older: str | None
    """`at` of the page with older records (direction=older); null if there are none."""
    newer: str | None
    """`at` of the page with newer records (direction=newer); null if there are none now."""
    end: str
    """`at` of the records that will be written after this page was read."""
    ranges: list[PartitionRange]
    errors: list[PartitionProblem]
    left_out: int
    """Partitions that were not read because there are too many: choose some with `partitions`."""


async def get_records(call: Call) -> RecordPage:
    """Return a page of records of some partitions, newest or oldest first. A broker that does not answer is named."""
    decoder, limit = decoder_of(call), limit_of(call)
    selection = await Selection.of(call)
    page = await selection.page(limit)
    log = selection.log
    await decoder.prepare((one.key, one.value) for one in page.records)
    return RecordPage(
        records=[record_answer(one, decoder) for one in page.records],
        older=_place(page.lows, page, {one: found.start for one, found in log.ranges.items()}),
        newer=_place(page.highs, page, {one: found.end for one, found in log.ranges.items()}),
        end=cursor_text({one: found.end for one, found in log.ranges.items()}),
        ranges=[PartitionRange(partition=one, start=at.start, end=at.end) for one, at in sorted(log.ranges.items())],
        errors=[PartitionProblem(partition=one, message=text) for one, text in sorted(log.errors.items())],
        left_out=selection.left_out,
    )


def _place(bounds: dict[int, int], page: Page, last: dict[int, int]) -> str | None:
    """Return a place in the topic; None if there is nothing beyond."""
    return cursor_text(bounds) if any(bounds[one] != last[one] for one in bounds) else None


async def get_record(call: Call) -> RecordAnswer:
    """Return one record, also of an aborted or open transaction, with its key and value up to a megabyte each."""
    decoder = decoder_of(call)
    record = await _record(call)
    await decoder.prepare([(record.key, record.value)])
    return record_answer(record, decoder, is_whole=True)


async def get_record_part(call: Call) -> web.Response:
    """Return the bytes of the key or of the value of a record, as a file."""
    part = call.text("part")
    if part not in ("key", "value"):
        raise not_found(f"a record has a key and a value, no {part[:40]}")
    record = await _record(call)
    data = record.key if part == "key" else record.value
    if data is None:
        raise not_found(f"the {part} of this record is null")
    name = f"{call.topic_name}-{record.partition}-{record.offset}.{part}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return web.Response(body=data, content_type="application/octet-stream", headers=headers)


async def _record(call: Call) -> StoredRecord:
    partition = (await call.partition()).partition
    text = call.text("offset")
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or int(text) > _MAX_OFFSET:
        raise not_found(f"offset must be a number, not {text[:40]!r}")
    offset = int(text)
    name = TopicPartition(call.topic_name, partition)
    log = PartitionLog(call.admin, name, shows_all=True, piece_bytes=_ONE_RECORD, max_bytes=_ONE_RECORD)
    try:
        records = (await log.first(1, offset, offset + 1)).records
    except OffsetOutOfRangeError:
        records = []
    if not records:
        raise not_found(f"there is no record {offset} in {name}: it was removed, or the offset belongs to no record")
    record = records[0]
    if record.error is not None:
        raise RestError(500, record.error)
    return record


_TOPIC: Final = "/topics/{topic_name}"
_RECORD: Final = f"{_TOPIC}/partitions/{{partition_id}}/records/{{offset}}"
OPERATIONS: Final = (
    ApiOperation(
        "GET", f"{_TOPIC}/records", get_records, READ, RecordPage, query=(*SELECTION, *DECODERS, Parameter("limit"))
    ),
    ApiOperation("GET", _RECORD, get_record, READ, RecordAnswer, query=DECODERS),
    ApiOperation("GET", f"{_RECORD}/{{part}}", get_record_part, READ),
)
