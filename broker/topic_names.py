"""Kafka's rules for topic names."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_LENGTH = 249
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_problem(name: str) -> str | None:
    """What is wrong with a topic name, in Kafka's words for clients that show them; None where nothing is."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_LENGTH:
        return f"the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
    if not _LEGAL.fullmatch(name):
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def replica_name_problem(topic: str, partition: int) -> str | None:
    """What is wrong with the name of a partition in a request of another broker; None where nothing is."""
    return topic_name_problem(topic) or (f"the partition {partition} is negative" if partition < 0 else None)


def colliding_topic(name: str, existing: Iterable[str]) -> str | None:
    """A topic whose metric names would be the same: '.' and '_' are not told apart there."""
    if "." not in name and "_" not in name:
        return None
    folded = name.replace(".", "_")
    return next((other for other in existing if other != name and other.replace(".", "_") == folded), None)
