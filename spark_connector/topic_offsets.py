"""Offsets by topic and partition, in the format of options and of Spark's checkpoint: {"orders": {"0": 23, "1": -2}}.

In an option -1 means latest and -2 earliest. A stream's offsets in the checkpoint have the same format, sorted, so that
equal offsets are equal text. Those of the first batch also contain the start of the stream (`START`): if a query
restarts before its first batch is done, Spark asks for the initial offsets again, and "latest" has advanced by then.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from client.options import refuse
from client.topic_partition import TopicPartition

Offsets = dict[TopicPartition, int]
"""The offset of the next record, by partition."""

EARLIEST: Final = -2
LATEST: Final = -1
START: Final = "$start"
"""The key of the stream's start in a first batch's end. No topic can have this name."""


def parse_partition_numbers(option: str, text: str) -> list[TopicPartition]:
    """The partitions of {"orders": [0, 1]}, sorted. Raises InvalidOptionError."""
    rule = 'must be JSON such as {"orders": [0, 1]}'
    found = set()
    for topic, numbers in _object(option, text, text, rule).items():
        if not isinstance(numbers, list):
            raise refuse(option, text, rule)
        found |= {TopicPartition(topic, _partition(option, text, number, rule)) for number in numbers}
    if not found:
        raise refuse(option, text, "must name at least one partition")
    return sorted(found)


def parse_numbers(option: str, text: str, *, minimum: int = EARLIEST) -> Offsets:
    """The numbers of {"orders": {"0": 23}}, each at least `minimum`. Raises InvalidOptionError."""
    rule = (
        'must be JSON such as {"orders": {"0": 23, "1": -2}}' if minimum < 0 else 'must be JSON {"orders": {"0": 1000}}'
    )
    found = {}
    for topic, numbers in _object(option, text, text, rule).items():
        for number, value in _object(option, text, numbers, rule).items():
            if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
                raise refuse(option, text, f"{topic}-{number} is {value!r}: must be a whole number, at least {minimum}")
            found[TopicPartition(topic, _partition(option, text, number, rule))] = value
    return found


def _object(option: str, text: str, value: Any, rule: str) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise refuse(option, text, rule) from None
    if not isinstance(value, dict):
        raise refuse(option, text, rule)
    return value


def _partition(option: str, text: str, number: object, rule: str) -> int:
    if isinstance(number, str) and number.isascii() and number.isdigit():
        return int(number)
    if isinstance(number, int) and not isinstance(number, bool) and number >= 0:
        return number
    raise refuse(option, text, rule)


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    """Offsets in the format of a stream's offset: by topic, then by the partition's number as text."""
    found: dict[str, Any] = {}
    for topic, number in sorted(offsets):
        found.setdefault(topic, {})[str(number)] = offsets[TopicPartition(topic, number)]
    return found


def from_json(value: Mapping[str, Any]) -> Offsets:
    """Offsets from a stream's offset, without its `START`."""
    return {
        TopicPartition(topic, int(number)): int(offset)
        for topic, numbers in value.items()
        if topic != START
        for number, offset in numbers.items()
    }


def start_of(end: Mapping[str, Any]) -> Offsets | None:
    """The start of the stream, if `end` is the end of its first batch."""
    return from_json(end[START]) if START in end else None


def describe(offsets: Mapping[TopicPartition, int]) -> str:
    """Offsets as text for a message."""
    return json.dumps(to_json(offsets))
