"""Ottla's asyncio clients for code without asyncio: the same methods, without await."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterable, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import TracebackType
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")


class Call(Protocol):
    """Runs a coroutine function on an event loop in another thread, and returns its result."""

    def __call__(self, function: Callable[[], Coroutine[Any, Any, Any]], /) -> Any:
        """Run it; raise what it raises."""


class Blocking(Generic[T]):
    """An asyncio client whose methods block: each runs on the loop of another thread, and returns its result.

        producer.send("orders", b"one")                 # await producer.send(…)
        with producer.transaction(): …                  # async with
        for record in consumer: …                       # async for

    `client` is the client itself, for code that runs on that loop.
    """

    def __init__(self, client: T, call: Call) -> None:
        """client: must belong to the loop of `call`."""
        self.client = client
        self._call = call

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.client, name)
        if not callable(value):
            return value

        @functools.wraps(value)
        def method(*args: Any, **named: Any) -> Any:
            async def run() -> Any:
                result = value(*args, **named)
                return await result if inspect.isawaitable(result) else result

            result = self._call(run)
            return _BlockingContext(result, self._call) if isinstance(result, AbstractAsyncContextManager) else result

        return method

    def __iter__(self) -> Iterator[Any]:
        if not isinstance(self.client, AsyncIterable):
            raise TypeError(f"{type(self.client).__name__} is not iterable")
        iterator = aiter(self.client)
        while True:
            try:
                yield self._call(_next_of(iterator))
            except StopAsyncIteration:
                return

    def __repr__(self) -> str:
        return f"Blocking({self.client!r})"


def _next_of(iterator: AsyncIterator[Any]) -> Callable[[], Coroutine[Any, Any, Any]]:
    async def advance() -> Any:
        return await anext(iterator)

    return advance


class _BlockingContext(AbstractContextManager[Any]):
    """An asynchronous context manager for a `with` statement."""

    def __init__(self, manager: AbstractAsyncContextManager[Any], call: Call) -> None:
        self._manager = manager
        self._call = call

    def __enter__(self) -> Any:
        return self._call(self._manager.__aenter__)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        return bool(self._call(functools.partial(self._manager.__aexit__, kind, error, traceback)))
