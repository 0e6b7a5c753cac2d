"""Requests that wait for something: a long poll for bytes, acks=all for the high watermark.

An operation waits under the keys of what may satisfy it (partitions). Whoever changes such a thing calls
`check(key)`; the operation then looks again, and is answered when it is satisfied or its time is up, whichever is
first. What one check satisfies is answered in the order in which it began to wait: coordinators rely on it. Checking a
key nobody waits for costs one dictionary lookup, which is what the hot path pays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable
from typing import Generic, Protocol, TypeVar

T = TypeVar("T", covariant=True)
R = TypeVar("R")


class DelayedOperation(Protocol[T]):
    """What waits."""

    def is_satisfied(self) -> bool:
        """True when the answer need not wait any longer. Cheap, and without effect."""
        ...

    def complete(self) -> T:
        """The answer, as things stand now: called once, when satisfied or when time is up."""
        ...


class _Waiter(Generic[R]):
    __slots__ = ("future", "keys", "operation", "timer")

    def __init__(self, operation: DelayedOperation[R], keys: tuple[Hashable, ...], future: asyncio.Future[R]) -> None:
        self.operation = operation
        self.keys = keys
        self.future = future
        self.timer: asyncio.TimerHandle  # from `Purgatory.wait` on


class Purgatory(Generic[R]):
    """Operations of one kind that wait, by key."""

    def __init__(self) -> None:
        self._waiters: dict[Hashable, dict[_Waiter[R], None]] = {}  # in the order of waiting
        self.size = 0

    def __contains__(self, key: Hashable) -> bool:
        """True while something waits under `key`."""
        return key in self._waiters

    def wait(self, operation: DelayedOperation[R], keys: Iterable[Hashable], timeout_s: float) -> asyncio.Future[R]:
        """A future of the operation's answer. Cancelling it ends the wait."""
        loop = asyncio.get_running_loop()
        waiter = _Waiter(operation, tuple(keys), loop.create_future())
        for key in waiter.keys:
            self._waiters.setdefault(key, {})[waiter] = None
        self.size += 1
        waiter.timer = loop.call_later(timeout_s, self._complete, waiter)
        waiter.future.add_done_callback(lambda _: self._forget(waiter))
        return waiter.future

    def check(self, key: Hashable) -> None:
        """Something happened at `key`: answer what waits for it and is satisfied."""
        waiters = self._waiters.get(key)
        if waiters is None:
            return
        for waiter in tuple(waiters):
            if not waiter.future.done() and self._is_satisfied(waiter):
                self._complete(waiter)

    def complete_all(self) -> None:
        """Answer everything that waits, as things stand: the broker is stopping."""
        for waiters in list(self._waiters.values()):
            for waiter in list(waiters):
                self._complete(waiter)

    @staticmethod
    def _is_satisfied(waiter: _Waiter[R]) -> bool:
        """What goes wrong here is for the one who waits to hear, not for the one whose append made us look."""
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
