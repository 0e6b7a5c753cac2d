"""Kafka's rules for topic names."""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_LENGTH = 249
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def topic_name_problem(name: str) -> str | None:
    """Return the error of a topic name, in Kafka's words because clients may show it; None if the name is valid."""
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
    """Return the error of a topic and partition in a request of another broker; None if they are valid."""
    return topic_name_problem(topic) or (f"the partition {partition} is negative" if partition < 0 else None)


def colliding_topic(name: str, existing: Iterable[str]) -> str | None:
    """Return a topic with the same metric names, in which '.' and '_' are the same; None if there is none."""
    if "." not in name and "_" not in name:
        return None
    folded = name.replace(".", "_")
    return next((other for other in existing if other != name and other.replace(".", "_") == folded), None)
