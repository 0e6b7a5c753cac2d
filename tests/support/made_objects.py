"""The objects of the product that are made while a block runs: those that live, and those that lived for a moment.

A hook of the interpreter (`sys.setprofile`) sees what constructors make that are written in Python, and what functions
return, such as requests and answers. The garbage collector knows the rest, and exceptions.
"""

from __future__ import annotations

import functools
import gc
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self

PACKAGES = ("broker", "client", "console", "ottla", "protocol", "registry", "replication", "security", "storage")


@functools.cache
def is_ours(kind: type) -> bool:
    """Whether a class is of one of the product's packages."""
    return str(kind.__module__).partition(".")[0] in PACKAGES  # a property in some libraries


class MadeObjects:
    """A context manager, which keeps the objects; an iterable of them. Threads are seen that start in the block."""

    def __init__(self) -> None:
        self._made: dict[int, object] = {}

    def __enter__(self) -> Self:
        threading.setprofile(self._see)
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def __iter__(self) -> Iterator[object]:
        gc.collect()  # rubbish of earlier tests may be half made: a request whose decoding has failed
        alive = {id(one): one for one in gc.get_objects() if is_ours(type(one)) or issubclass(type(one), BaseException)}
        return iter((self._made | alive).values())

    def _see(self, frame: FrameType, event: str, value: Any) -> None:
        if event != "return":
            return
        if frame.f_code.co_name == "__init__" and frame.f_code.co_argcount:
            value = frame.f_locals.get(frame.f_code.co_varnames[0])
        if is_ours(type(value)):
            self._made.setdefault(id(value), value)
