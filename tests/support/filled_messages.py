"""Messages of any API and version with every field set, from a function that gives the values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocol.fields import Field
from protocol.message import Message


def filled(
    cls: type[Message],
    version: int,
    value: Callable[[Field], Any],
    *,
    text: str,
    lists: int = 1,
    nulls: bool = False,
) -> Message:
    """Return a message with every field of that version set, except of tagged fields.

    value: the value of a field that is neither a list nor a structure. text: the element of lists of strings; that of
    lists of numbers is 0. lists: the length of lists. nulls: whether the fields that may be null are.
    """
    values = {}
    for field in cls.FIELDS:
        if not field.present(version) or field.tag is not None:
            continue
        if nulls and field.may_be_null(version):
            values[field.name] = None
        elif field.kind == "array":
            element = field.element
            if isinstance(element, type):
                values[field.name] = [
                    filled(element, version, value, text=text, lists=lists, nulls=nulls) for _ in range(lists)
                ]
            else:
                values[field.name] = [text if element == "string" else 0] * lists
        elif field.kind == "struct":
            values[field.name] = filled(field.element, version, value, text=text, lists=lists, nulls=nulls)
        else:
            values[field.name] = value(field)
    return cls(**values)
