"""Requests that wait for something: a long poll for bytes, acks=all for the high watermark.

An operation waits under keys (usually partitions): a change at one of them may satisfy it. Code that makes such a
change calls `check(key)`. The operation then checks its condition; it is answered when it is satisfied or its timeout
expires, whichever is first. Operations that one check satisfies are answered in the order in which they began to wait:
coordinators rely on it. A check of a key without waiting operations costs one dictionary lookup, even on the hot path.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable
from typing import Generic, Protocol, TypeVar

T = TypeVar("T", covariant=True)
R = TypeVar("R")


class DelayedOperation(Protocol[T]):
    """An operation that waits."""

    def is_satisfied(self) -> bool:
        """Return True if the answer need not wait any longer. Cheap; changes nothing but the operation."""
        ...

    def complete(self) -> T:
        """Return the answer for the present state. Called once: when satisfied, or at the timeout."""
        ...


class _Waiter(Generic[R]):
    __slots__ = ("future", "keys", "operation", "timer")

    def __init__(self, operation: DelayedOperation[R], keys: tuple[Hashable, ...], future: asyncio.Future[R]) -> None:
        self.operation = operation
        self.keys = keys
        self.future = future
        self.timer: asyncio.TimerHandle  # set by `Purgatory.wait`


class Purgatory(Generic[R]):
    """Waiting operations of one kind, by key."""

    def __init__(self) -> None:
        self._waiters: dict[Hashable, dict[_Waiter[R], None]] = {}  # in the order of waiting
        self.size = 0

    def __contains__(self, key: Hashable) -> bool:
        """True while an operation waits under `key`."""
        return key in self._waiters

    def wait(self, operation: DelayedOperation[R], keys: Iterable[Hashable], timeout_s: float) -> asyncio.Future[R]:
        """Return a future of the operation's answer. Cancelling the future ends the wait."""
        loop = asyncio.get_running_loop()
        waiter = _Waiter(operation, tuple(keys), loop.create_future())
        for key in waiter.keys:
            self._waiters.setdefault(key, {})[waiter] = None
        self.size += 1
        waiter.timer = loop.call_later(timeout_s, self._complete, waiter)
        waiter.future.add_done_callback(lambda _: self._forget(waiter))
        return waiter.future

    def check(self, key: Hashable) -> None:
        """Complete the operations that wait under `key` and are satisfied now."""
        waiters = self._waiters.get(key)
        if waiters is None:
            return
        for waiter in tuple(waiters):
            if not waiter.future.done() and self._is_satisfied(waiter):
                self._complete(waiter)

    def complete_all(self) -> None:
        """Complete all operations in the present state: the broker is stopping."""
        for waiters in list(self._waiters.values()):
            for waiter in list(waiters):
                self._complete(waiter)

    @staticmethod
    def _is_satisfied(waiter: _Waiter[R]) -> bool:
        """An exception goes to the request that waits, not to the caller of `check`, whose append caused the check."""
        try:
            return waiter.operation.is_satisfied()
        except Exception as error:
            waiter.future.set_exception(error)
            return False

    @staticmethod
    def _complete(waiter: _Waiter[R]) -> None:
        if waiter.future.done():
            return
        try:
            answer = waiter.operation.complete()
        except Exception as error:
            waiter.future.set_exception(error)
        else:
            waiter.future.set_result(answer)

    def _forget(self, waiter: _Waiter[R]) -> None:
        waiter.timer.cancel()
        for key in waiter.keys:
            waiters = self._waiters.get(key)
            if waiters is not None:
                waiters.pop(waiter, None)
                if not waiters:
                    del self._waiters[key]
        self.size -= 1
