"""Assertions for tests without asyncio: each function of `ottla.testing.async_assertions`, which blocks here.

    from ottla.testing import assertions as kafka

    records = kafka.read_topic(servers, "orders", value_deserializer=json.loads)
    kafka.wait_for_no_lag(servers, "billing")

A call runs its own event loop. In a coroutine it raises RuntimeError, as it would stop the clients of that loop.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from client.wire.event_loop import new_event_loop
from ottla.testing import async_assertions

P = ParamSpec("P")
T = TypeVar("T")


def _blocking(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Return the blocking form of a coroutine function."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        _check_no_loop(function.__name__)
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            return runner.run(function(*args, **kwargs))

    return call


def _check_no_loop(name: str) -> None:
    """Raise RuntimeError if this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        f"{name} blocks, and would stop the event loop of this thread: in a coroutine, await the function of this name"
        " of async_assertions"
    )


read_topic = _blocking(async_assertions.read_topic)
wait_for_commit = _blocking(async_assertions.wait_for_commit)
wait_for_full_isr = _blocking(async_assertions.wait_for_full_isr)
wait_for_group = _blocking(async_assertions.wait_for_group)
wait_for_no_lag = _blocking(async_assertions.wait_for_no_lag)
wait_for_records = _blocking(async_assertions.wait_for_records)
wait_for_topic = _blocking(async_assertions.wait_for_topic)
