"""The records of a topic as they come: a search, the live tail, and a download."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from typing import Final

from aiohttp import web

from console.messages.answers import RecordAnswer, record_answer
from console.messages.cursor import cursor_text
from console.messages.filters import FILTERS, RecordFilter
from console.messages.scan import Scan
from console.messages.selection import DECODERS, SELECTION, Selection, decoder_of, limit_of, number_in
from console.messages.tail import Tail
from console.rest.call import Call
from console.rest.event_stream import event_stream
from console.rest.models import Answer
from console.rest.operation import ApiOperation, Parameter
from console.v1.messages import READ, PartitionProblem

MAX_SCANNED: Final = 1_000_000
DEFAULT_SCANNED: Final = 100_000
"""Records that one search looks at. Then it can be continued."""
MAX_SEARCH_S: Final = 30.0
PROGRESS_S: Final = 0.25
MAX_DOWNLOAD: Final = 100_000
MAX_DOWNLOAD_BYTES: Final = 256 * 1024 * 1024


class RecordsFound(Answer):
    """Records that match, in the order in which they were found."""

    records: list[RecordAnswer]


class SearchProgress(Answer):
    """How far a search is. The last event, `end`, says where it can be continued."""

    scanned: int
    matched: int
    at: str
    """Where to continue, with the same direction."""
    is_complete: bool
    """Whether there are no more records."""
    errors: list[PartitionProblem]


class TailPiece(Answer):
    """Records that are new."""

    records: list[RecordAnswer]
    skipped: int
    """Records that were too many to show, before these."""
    at: str
    """Where to go on after a break."""


async def search_records(call: Call) -> web.StreamResponse:
    """Search records, as server-sent events: records, progress and at last end.

    A search ends after `limit` matches, `max_scanned` records or 30 seconds, and can be continued.
    """
    decoder, limit = decoder_of(call), limit_of(call)
    wanted = RecordFilter.of(call.query, decoder)
    most = number_in(call.query.get("max_scanned", str(DEFAULT_SCANNED)), "max_scanned", MAX_SCANNED, least=1)
    selection = await Selection.of(call)
    scan = Scan(selection, wanted, limit=limit, max_scanned=most)
    loop = asyncio.get_running_loop()
    begun = told = loop.time()
    async with event_stream(call) as events:
        async for records in scan.steps():
            if records:
                await events.send("records", RecordsFound(records=[record_answer(one, decoder) for one in records]))
            if loop.time() - told >= PROGRESS_S:
                told = loop.time()
                await events.send("progress", _progress(scan, selection))
            if loop.time() - begun >= MAX_SEARCH_S:
                break
        await events.send("end", _progress(scan, selection))
    return events.response


def _progress(scan: Scan, selection: Selection) -> SearchProgress:
    return SearchProgress(
        scanned=scan.scanned,
        matched=scan.matched,
        at=cursor_text(scan.at),
        is_complete=scan.is_complete,
        errors=[PartitionProblem(partition=one, message=text) for one, text in sorted(selection.log.errors.items())],
    )


async def tail_records(call: Call) -> web.StreamResponse:
    """Follow the end of a topic, as server-sent events: records as they are written, and how many were too many.

    The first event has no records: it says where the stream begins, so that it can be continued from there.
    """
    decoder = decoder_of(call)
    tail = Tail(await Selection.of(call), RecordFilter.of(call.query, decoder))
    async with event_stream(call) as events:
        await events.send("records", TailPiece(records=[], skipped=0, at=cursor_text(tail.at)))
        async for _ in events.ticks(lambda: tail.period_s):
            found = await tail.look()
            if found.records or found.skipped:
                records = [record_answer(one, decoder) for one in found.records]
                await events.send("records", TailPiece(records=records, skipped=found.skipped, at=cursor_text(tail.at)))
    return events.response


async def download_records(call: Call) -> web.StreamResponse:
    """Download records as JSON lines or CSV, at most 100,000 and 256 MiB.

    Keys and values are as their decoders show them, up to a megabyte each.
    """
    decoder = decoder_of(call)
    limit = limit_of(call, default=MAX_DOWNLOAD, most=MAX_DOWNLOAD)
    wanted = RecordFilter.of(call.query, decoder)
    is_csv = call.query.get("format") == "CSV"
    selection = await Selection.of(call)
    scan = Scan(selection, wanted, limit=limit, max_scanned=MAX_SCANNED)
    kind, ending = ("text/csv", "csv") if is_csv else ("application/jsonl", "jsonl")
    response = web.StreamResponse(
        headers={
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Disposition": f'attachment; filename="{call.topic_name}.{ending}"',
            "Cache-Control": "no-store",
        }
    )
    await response.prepare(call.request)
    if is_csv:
        await response.write(_csv_line([*_COLUMNS]))
    sent = 0
    async for records in scan.steps():
        for record in records:
            answer = record_answer(record, decoder, is_whole=True)
            line = _csv_of(answer) if is_csv else _json_of(answer)
            await response.write(line)
            sent += len(line)
        if sent >= MAX_DOWNLOAD_BYTES:
            break
    await response.write_eof()
    return response


_COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value", "headers")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def _json_of(record: RecordAnswer) -> bytes:
    found = {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": None if record.key is None else record.key.text,
        "value": None if record.value is None else record.value.text,
        "headers": [[one.name, None if one.value is None else one.value.text] for one in record.headers],
    }
    return json.dumps(found, ensure_ascii=False).encode(errors="replace") + b"\n"


def _csv_of(record: RecordAnswer) -> bytes:
    headers = json.dumps({one.name: None if one.value is None else one.value.text for one in record.headers})
    key, value = ("" if one is None else _harmless(one.text) for one in (record.key, record.value))
    time = "" if record.timestamp is None else str(record.timestamp)
    return _csv_line([str(record.partition), str(record.offset), time, key, value, headers])


def _harmless(text: str) -> str:
    """Return text that a spreadsheet does not take for a formula."""
    is_number = text.lstrip("+-").replace(".", "", 1).isdigit()
    return f"'{text}" if text.startswith(_FORMULA) and not is_number else text


def _csv_line(cells: list[str]) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue().encode(errors="replace")


_RECORDS: Final = "/topics/{topic_name}/records"
_QUERY: Final = (*SELECTION, *DECODERS, *FILTERS, Parameter("limit"))
OPERATIONS: Final = (
    ApiOperation("GET", f"{_RECORDS}:search", search_records, READ, query=(*_QUERY, Parameter("max_scanned"))),
    ApiOperation("GET", f"{_RECORDS}:tail", tail_records, READ, query=_QUERY),
    ApiOperation(
        "GET",
        f"{_RECORDS}:download",
        download_records,
        READ,
        query=(*_QUERY, Parameter("format", choices=("CSV", "JSONL"))),
    ),
)
