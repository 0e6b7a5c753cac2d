"""A coroutine whose steps are timed: what a request costs the event loop, without its waits."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import Any, TypeVar

from broker.requests.context import RequestContext

T = TypeVar("T")


class Metered(Coroutine[Any, Any, T]):
    """Runs `work` and counts the time of its steps in the context of its request."""

    def __init__(self, work: Coroutine[Any, Any, T], context: RequestContext) -> None:
        self._work = work
        self._context = context

    def send(self, value: Any) -> Any:
        """Run the next step."""
        self._context.resume()
        try:
            return self._work.send(value)
        finally:
            self._context.pause()

    def throw(self, kind: Any, error: Any = None, traceback: TracebackType | None = None) -> Any:
        """Run the next step with an exception."""
        self._context.resume()
        try:
            return self._work.throw(kind if error is None else error)
        finally:
            self._context.pause()

    def close(self) -> None:
        """End the work."""
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return _steps(self)


def _steps(work: Metered[T]) -> Generator[Any, Any, T]:
    """Pass what is sent and thrown on to the work, and what it waits for to the event loop."""
    value: Any = None
    error: BaseException | None = None
    while True:
        try:
            waits_for = work.send(value) if error is None else work.throw(error)
        except StopIteration as finished:
            result: T = finished.value
            return result
        value = error = None
        try:
            value = yield waits_for
        except GeneratorExit:
            work.close()
            raise
        except BaseException as thrown:
            error = thrown
