"""All declared messages, their recorded bytes, and strategies that generate arbitrary ones."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any

from hypothesis import strategies as st

from protocol import messages
from protocol.api_keys import ApiKey, request_class, response_class
from protocol.fields import Field
from protocol.headers import RequestHeader, ResponseHeader
from protocol.message import Message
from support.reference import REFERENCE

VECTORS = REFERENCE / "wire" / "vectors"
RECORD_MODULES = (
    "group_metadata",
    "consumer_group_metadata",
    "transaction_log",
    "consumer_protocol",
    "default_principal",
    "control_record",
)
INTEGERS = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint16": (0, (1 << 16) - 1),
}


@cache
def message_classes() -> dict[str, type[Message]]:
    """All top-level messages by name: requests, responses, headers, internal records."""
    found: list[type[Message]] = [RequestHeader, ResponseHeader]
    for key in ApiKey:
        found += [request_class(key), response_class(key)]
    for name in RECORD_MODULES:
        module = import_module(f"{messages.__name__}.{name}")
        found += [
            value
            for value in vars(module).values()
            if isinstance(value, type)
            and issubclass(value, Message)
            and value.__module__ == module.__name__
            and value.MAX_VERSION >= 0
        ]
    return {cls.NAME: cls for cls in found}


def versions(cls: type[Message]) -> range:
    """The versions of a top-level message."""
    return range(cls.MIN_VERSION, cls.MAX_VERSION + 1)


def every_version() -> list[tuple[type[Message], int]]:
    """Each message with each of its versions."""
    return [(cls, version) for cls in message_classes().values() for version in versions(cls)]


def vector_files() -> list[str]:
    """The names of the files of recorded messages."""
    return sorted(path.name for path in VECTORS.glob("*.jsonl"))


def read_vectors(file: str) -> Iterator[tuple[type[Message], dict[str, Any]]]:
    """The lines of one file, each with our class for it."""
    suffix = {"request": "Request", "response": "Response"}
    with (VECTORS / file).open() as lines:
        for line in lines:
            vector = json.loads(line)
            name = vector["name"]
            if vector["api_key"] is not None:
                name += suffix[vector["kind"]]
            yield message_classes()[name], vector


Special = Callable[[Field], st.SearchStrategy[Any] | None]


@cache
def strategy(
    cls: type[Message], version: int, flexible: bool, special: Special | None = None
) -> st.SearchStrategy[Any]:
    """Messages of a version with any content that it supports; fields that it lacks keep their defaults.

    `special` may give a strategy of its own for a field.
    """
    fields = {}
    for field in cls.FIELDS:
        if field.present(version):
            of_field = special(field) if special else None
            fields[field.name] = _field(field, version, flexible, special) if of_field is None else of_field
    made = st.builds(cls, **fields)
    if not flexible or special:
        return made
    tags = st.just({}) | st.dictionaries(st.integers(100, 2**31), st.binary(max_size=150), max_size=3)
    return st.builds(_with_tags, made, tags)


def _with_tags(message: Message, tags: dict[int, bytes]) -> Message:
    if tags:
        message.unknown_tags = tags
    return message


def _field(field: Field, version: int, flexible: bool, special: Special | None) -> st.SearchStrategy[Any]:
    if field.kind == "array":
        if isinstance(field.element, type):
            element = strategy(field.element, version, flexible, special)
        else:
            assert field.element is not None
            element = _scalar(field.element)
        of_field: st.SearchStrategy[Any] = st.lists(element, max_size=3)
    elif field.kind == "struct":
        assert isinstance(field.element, type)
        of_field = strategy(field.element, version, flexible, special)
    else:
        of_field = _scalar(field.kind)
    return st.none() | of_field if field.may_be_null(version) else of_field


def _scalar(kind: str) -> st.SearchStrategy[Any]:
    if kind in INTEGERS:
        return st.integers(*INTEGERS[kind])
    if kind == "boolean":
        return st.booleans()
    if kind == "float64":
        return st.floats(allow_nan=False)
    if kind == "uuid":
        return st.binary(min_size=16, max_size=16)
    if kind == "string":
        return st.text(max_size=8) | st.sampled_from(["x" * 126, "x" * 127, "é" * 64, "x" * 200])
    return st.binary(max_size=8) | st.sampled_from([b"y" * 126, b"y" * 127, b"y" * 20_000])
