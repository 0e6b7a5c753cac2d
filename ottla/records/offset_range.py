"""The range of offsets that `ottla consume` reads: `--offset START`, `START:` or `START:END`, with END excluded.

START and END are an offset (`17`), `start` or `beginning`, `end`, `-N` (N before the end), `+N` (N after the start), or
`@TIME`: the first record at or after a time. Times contain colons, so the END after a time needs its own `@`, or is
`end`: `@2026-11-22T10:00:@2026-11-22T11:00`.

A range is resolved once, when the command starts, for each partition: an end is an offset and not a count of records.
So a range ends in every partition, even if its last offsets are transaction markers or were removed by compaction.
"""

import re
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

from client.topic_partition import TopicPartition
from ottla.command_line.clients import Reader
from ottla.command_line.failure import CommandError
from ottla.records.moments import parse_moment


class Anchor(Enum):
    """What the number of an `Edge` is relative to."""

    OFFSET = auto()
    START = auto()
    END = auto()
    TIME = auto()


class Edge(NamedTuple):
    """One end of a range: an offset, a distance from the start or before the end, or ms since the epoch."""

    anchor: Anchor
    number: int


BEGINNING = Edge(Anchor.START, 0)
END = Edge(Anchor.END, 0)


class OffsetRange(NamedTuple):
    """The offsets from `start` on, up to `end`; None: no limit but the end of the partition."""

    start: Edge
    end: Edge | None = None


class Span(NamedTuple):
    """The offsets to read of one partition: from `start` on, and before `end` (None: no limit).

    `position` is where to begin to fetch: `start`, or the current end of the partition if `start` is after it.
    """

    position: int
    start: int
    end: int | None


def parse_range(text: str, option: str, now_ms: int) -> OffsetRange:
    """Return the range of a text. Raises CommandError, which names the option."""
    head, tail = _split(text)
    start = _edge(head, text, option, now_ms) if head else BEGINNING
    end = _edge(tail, text, option, now_ms) if tail else None
    if end is not None and start.anchor is end.anchor and _runs_backwards(start, end):
        raise CommandError(f"{option} {text!r}: the end is before the start")
    return OffsetRange(start, end)


def _split(text: str) -> tuple[str, str]:
    """Return the texts of start and end; empty if there is none."""
    if not text.startswith("@"):
        head, _, tail = text.partition(":")
        return head, tail
    head, colon, tail = text.partition(":@")
    if colon:
        return head, "@" + tail
    if text.endswith(":end"):
        return text.removesuffix(":end"), "end"
    return text.removesuffix(":"), ""


def _edge(text: str, whole: str, option: str, now_ms: int) -> Edge:
    if text in ("start", "beginning"):
        return BEGINNING
    if text == "end":
        return END
    if text.startswith("@"):
        return Edge(Anchor.TIME, _time(text[1:], whole, option, now_ms))
    if re.fullmatch(r"[-+]?[0-9]+", text) is None:
        raise CommandError(
            f"{option} {whole!r}: {text!r} must be a number, +N, -N, start (or beginning), end, or @TIME"
        )
    anchor = {"-": Anchor.END, "+": Anchor.START}.get(text[0], Anchor.OFFSET)
    return Edge(anchor, abs(int(text)))


def _time(text: str, whole: str, option: str, now_ms: int) -> int:
    try:
        return parse_moment(text, option, now_ms)
    except CommandError as error:
        near = " (an end that is a time needs its own @: @-2h:@-1h)" if ":" in text and whole.startswith("@") else ""
        raise CommandError(f"{error}{near}") from None


def _runs_backwards(start: Edge, end: Edge) -> bool:
    """Whether `end`, which has the same anchor, is before `start`."""
    return end.number > start.number if start.anchor is Anchor.END else end.number < start.number


async def resolve(
    wanted: OffsetRange, reader: Reader, partitions: Sequence[TopicPartition], *, follow: bool
) -> dict[TopicPartition, Span]:
    """Look up the offsets of a range in each partition.

    Offsets below the log start offset are moved to it. Without `follow`, a span ends at most at the current end of its
    partition. With `follow`, a start after the end and an end after it are kept: the records may be written later.
    """
    beginnings = await reader.beginning_offsets(partitions)
    ends = await reader.end_offsets(partitions)
    starts = await _offsets(wanted.start, reader, beginnings, ends)
    limits: Mapping[TopicPartition, int | None]
    if wanted.end is not None:
        limits = await _offsets(wanted.end, reader, beginnings, ends)
    else:
        limits = dict.fromkeys(partitions) if follow else ends
    spans = {}
    for partition in partitions:
        limit = limits[partition]
        if limit is not None and not follow:
            limit = min(limit, ends[partition])
        start = max(starts[partition], beginnings[partition])
        spans[partition] = Span(min(start, ends[partition]), start, limit)
    return spans


async def _offsets(
    edge: Edge, reader: Reader, beginnings: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Return the offset of an edge in each partition."""
    match edge.anchor:
        case Anchor.OFFSET:
            return dict.fromkeys(ends, edge.number)
        case Anchor.START:
            return {partition: offset + edge.number for partition, offset in beginnings.items()}
        case Anchor.END:
            return {partition: offset - edge.number for partition, offset in ends.items()}
        case Anchor.TIME:
            found = await reader.offsets_for_times(dict.fromkeys(ends, edge.number))
            return {
                partition: ends[partition] if answer is None else answer.offset for partition, answer in found.items()
            }
