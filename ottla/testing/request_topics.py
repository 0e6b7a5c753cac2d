"""The topics that a request names, found in the fields of its message.

A field holds the name of a topic if it is called `topic` or `topic_name`, or `name` in a list of topics; or it is a
list of names. A field holds the id of a topic if it is called `topic_id`. DescribeConfigs and the APIs that alter
settings name topics as resources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

from protocol.message import Message

_NAMES = ("topic", "topic_name")
_LISTS_OF_NAMES = ("topic_names", "subscribed_topic_names")
_LISTS_OF_TOPICS = ("topics", "topic_data", "v3_and_below_topics")
_ID = "topic_id"
_TOPIC_RESOURCE = 2


class NamedTopics(NamedTuple):
    """The topics of one request: some versions name a topic, others give its id."""

    names: frozenset[str]
    ids: frozenset[bytes]


class _Fields(NamedTuple):
    """Where the topics of one struct are."""

    names: tuple[str, ...]
    lists: tuple[str, ...]
    has_id: bool
    is_resource: bool
    structs: tuple[tuple[str, type[Message], str], ...]
    """Arrays of structs that hold topics: the attribute, the struct, and the name of the array."""


def topics_of(request: Message) -> NamedTopics:
    """Return the topics that a request names."""
    names: set[str] = set()
    ids: set[bytes] = set()
    _collect(request, _fields(type(request), ""), names.add, ids.add)
    return NamedTopics(frozenset(names), frozenset(ids))


@cache
def _fields(kind: type[Message], array: str) -> _Fields:
    """Return where a struct, in an array of this name, holds topics."""
    own = {field.name: field for field in kind.FIELDS}
    names = tuple(name for name in _NAMES if name in own)
    if "name" in own and array in _LISTS_OF_TOPICS:
        names = (*names, "name")
    return _Fields(
        names=names,
        lists=tuple(name for name in _LISTS_OF_NAMES if name in own),
        has_id=_ID in own,
        is_resource={"resource_type", "resource_name"} <= own.keys(),
        structs=tuple(_structs_with_topics(kind)),
    )


def _structs_with_topics(kind: type[Message]) -> Iterator[tuple[str, type[Message], str]]:
    for field in kind.FIELDS:
        element = field.element
        if field.kind == "array" and isinstance(element, type) and any(_fields(element, field.name)):
            yield field.name, element, field.name


def _collect(
    message: Message, fields: _Fields, add_name: Callable[[str], None], add_id: Callable[[bytes], None]
) -> None:
    for name in fields.names:
        value = getattr(message, name)
        if value:
            add_name(value)
    for name in fields.lists:
        for value in getattr(message, name) or ():
            add_name(value)
    if fields.has_id:
        add_id(bytes(getattr(message, _ID)))
    if fields.is_resource:
        resource: Any = message
        if resource.resource_type == _TOPIC_RESOURCE:
            add_name(resource.resource_name)
    for attribute, element, array in fields.structs:
        inner = _fields(element, array)
        for one in getattr(message, attribute) or ():
            _collect(one, inner, add_name, add_id)
