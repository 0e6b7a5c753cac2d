"""Looks among objects that nobody knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar, cast

T = TypeVar("T")


def instances(kind: type[T], objects: Iterable[object]) -> Iterator[T]:
    """Yield the objects of a class. `isinstance` asks a `weakref.proxy` for the class of what may be gone."""
    return (cast("T", one) for one in objects if issubclass(type(one), kind))
