"""What the operations about the inside of a broker share: the broker itself, and what its refusals mean."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from console.inside import Inside
from console.inspection.errors import InspectionError
from console.rest.call import Call
from console.rest.errors import RestError, not_found

ELSEWHERE = "Only the console of an Ottla broker (ottla.console.listener) shows how Kafka works inside."


def inside_of(call: Call) -> Inside:
    """Return the broker that serves this console. Raises RestError if none does."""
    inside = call.services.inside
    if inside is None:
        raise not_found(ELSEWHERE)
    return inside


@contextlib.contextmanager
def refusals() -> Iterator[None]:
    """Answer what the broker refuses to show."""
    try:
        yield
    except InspectionError as error:
        raise RestError(error.status, str(error)) from None


def asked_number(call: Call, name: str) -> int:
    """Return a number of the query, 0 if it is not there. Raises RestError."""
    text = call.query.get(name, "0")
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise RestError(400, f"{name} must be a number from 0 on, not {text!r}")
    return int(text)


def asked_partition(call: Call) -> tuple[str, int]:
    """Return the topic and the partition of the query. Raises RestError if the reader may not describe the topic."""
    topic = call.query["topic"]
    if not call.sees_topic(topic):
        raise not_found(f"there is no topic {topic} that you may describe")
    return topic, asked_number(call, "partition")
