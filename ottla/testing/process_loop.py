"""An event loop in which several brokers run like processes: each can be paused, as by SIGSTOP.

Everything that a process does on the loop carries the process in its context (contextvars): tasks and callbacks inherit
it from the code that creates them. The loop checks the process before it runs a callback. The callbacks of a paused
process are kept until it continues, and its sockets are not watched, so the system queues what arrives for them: the
process accepts, reads and writes nothing. Threads that a process has started finish their current work.

The loop uses only documented interfaces: `call_soon` and `call_at`, and a selector.
"""

from __future__ import annotations

import asyncio
import contextvars
import selectors
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVarTuple

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

Ts = TypeVarTuple("Ts")


class Process:
    """The callbacks, tasks and sockets of one broker. `context`: run in it what the process shall begin with."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.context = contextvars.copy_context()
        self.context.run(CURRENT.set, self)
        self.is_paused = False
        self._held: deque[_Callback] = deque()

    def hold(self, callback: _Callback) -> None:
        """Keep a callback whose time has come until the process continues."""
        self._held.append(callback)

    def take_held(self) -> list[_Callback]:
        """Return the callbacks that were kept, in order, and forget them."""
        held = list(self._held)
        self._held.clear()
        return held


CURRENT: Final[contextvars.ContextVar[Process | None]] = contextvars.ContextVar("process", default=None)
"""The process that the running code belongs to; None for the code around the processes."""


class ProcessLoop(asyncio.SelectorEventLoop):
    """asyncio's event loop, for processes that can be paused."""

    def __init__(self) -> None:
        self._sockets = _Sockets()
        super().__init__(self._sockets)

    def pause(self, process: Process) -> None:
        """Pause a process. Its callbacks that are running or about to run in this turn of the loop still run."""
        process.is_paused = True
        self._sockets.pause(process)

    def resume(self, process: Process) -> None:
        """Continue a paused process, with the callbacks that it missed."""
        process.is_paused = False
        self._sockets.resume(process)
        for callback in process.take_held():
            callback.again(self)

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """Call `callback` in the next turn of the loop, or when its process continues."""
        process = CURRENT.get() if context is None else context.get(CURRENT)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        context = context or contextvars.copy_context()
        held = _Callback(process, callback, args, context)
        held.handle = super().call_soon(held, context=context)
        return held.handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """Call `callback` at a time of the loop's clock, or when its process continues after it."""
        process = CURRENT.get() if context is None else context.get(CURRENT)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        context = context or contextvars.copy_context()
        held = _Callback(process, callback, args, context)
        handle = held.handle = super().call_at(when, held, context=context)
        return handle


class _Callback:
    """A callback of a process. `handle`: by which the loop or the caller may cancel it."""

    __slots__ = ("_args", "_callback", "_context", "_process", "handle")

    handle: asyncio.Handle

    def __init__(
        self, process: Process, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context
    ) -> None:
        self._process = process
        self._callback = callback
        self._args = args
        self._context = context

    def __call__(self) -> None:
        if self._process.is_paused:
            self._process.hold(self)
        else:
            self._callback(*self._args)

    def again(self, loop: ProcessLoop) -> None:
        """Schedule a callback that was held, unless it has been cancelled meanwhile."""
        if not self.handle.cancelled():
            loop.call_soon(self._again, context=self._context)

    def _again(self) -> None:
        if not self.handle.cancelled():
            self._callback(*self._args)


_Key: TypeAlias = selectors.SelectorKey


class _Sockets(selectors.DefaultSelector):
    """A selector that knows which process watches a file descriptor: the one that registered it."""

    def __init__(self) -> None:
        super().__init__()
        self._owners: dict[int, Process] = {}
        self._paused: dict[Process, list[_Key]] = {}

    def register(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> _Key:
        """Watch a file descriptor for the current process."""
        key = super().register(fileobj, events, data)
        process = CURRENT.get()
        if process is not None:
            self._owners[key.fd] = process
        return key

    def unregister(self, fileobj: FileDescriptorLike) -> _Key:
        """Stop watching a file descriptor."""
        key = super().unregister(fileobj)
        self._owners.pop(key.fd, None)
        return key

    def pause(self, process: Process) -> None:
        """Stop watching the file descriptors of a process."""
        watched = [fd for fd, owner in self._owners.items() if owner is process]
        self._paused.setdefault(process, []).extend(self.unregister(fd) for fd in watched)

    def resume(self, process: Process) -> None:
        """Watch the file descriptors of a process again."""
        for key in self._paused.pop(process, []):
            process.context.run(self.register, key.fileobj, key.events, key.data)
