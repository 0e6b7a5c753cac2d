"""Offsets of groups in a file, in the format of kafka-consumer-groups.sh.

The file is CSV without a header line, with one line for each partition:

    topic,partition,offset              for one group, which the command names
    group,topic,partition,offset        for several groups
"""

import csv
import io
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from client.topic_partition import TopicPartition
from ottla.command_line.failure import CommandError

_MAX_PARTITION = 2**31 - 1
_MAX_OFFSET = 2**63 - 1


class OffsetRow(NamedTuple):
    """One line of the file; `group` is None if the file has no groups."""

    line: int
    group: str | None
    partition: TopicPartition
    offset: int


def read_offsets(path: Path) -> list[OffsetRow]:
    """Return the lines of a file. Raises CommandError, which names the line and the broken rule, and OSError."""
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not UTF-8 at byte {error.start}") from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[OffsetRow] = []
    lines: dict[tuple[str | None, TopicPartition], int] = {}
    width = 0
    try:
        for fields in reader:
            if not fields:
                continue
            where = f"{path}, line {reader.line_num}"
            if len(fields) not in (3, 4) or (width and len(fields) != width):
                expected = "topic,partition,offset or group,topic,partition,offset, the same in all lines"
                raise CommandError(f"{where}: {','.join(fields)!r} is not {expected}")
            width = len(fields)
            row = _row(reader.line_num, fields, where)
            before = lines.setdefault((row.group, row.partition), row.line)
            if before != row.line:
                raise CommandError(f"{where}: {row.partition} is already in line {before}")
            rows.append(row)
    except csv.Error as error:
        raise CommandError(f"{path}, line {reader.line_num}: {error}") from None
    if not rows:
        raise CommandError(f"{path} contains no offsets")
    return rows


def _row(line: int, fields: list[str], where: str) -> OffsetRow:
    *groups, topic, partition, offset = fields
    if not topic:
        raise CommandError(f"{where}: the topic is empty")
    return OffsetRow(
        line,
        groups[0] if groups else None,
        TopicPartition(topic, _number(partition, _MAX_PARTITION, f"{where}: partition")),
        _number(offset, _MAX_OFFSET, f"{where}: offset"),
    )


def _number(text: str, greatest: int, what: str) -> int:
    if re.fullmatch(r"[0-9]{1,19}", text) is None or int(text) > greatest:
        raise CommandError(f"{what} {text!r} must be a number from 0 to {greatest}")
    return int(text)


def format_offsets(rows: Iterable[tuple[str, TopicPartition, int]], *, with_group: bool) -> str:
    """Return the lines for groups, partitions and their offsets."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group, partition, offset in rows:
        writer.writerow([*([group] if with_group else []), *partition, offset])
    return out.getvalue()
