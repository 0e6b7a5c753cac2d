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
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVarTuple

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

Ts = TypeVarTuple("Ts")


class Process:
    """The callbacks, tasks and sockets of one broker. `context`: run the first code of the process in it."""

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
    """A selector that knows which process watches a file descriptor: the one that registered it.

    The file descriptors of a paused process are in its map like all others, so that they can be changed and
    unregistered, but the system does not watch them.
    """

    def __init__(self) -> None:
        super().__init__()
        self._owners: dict[int, Process] = {}
        self._paused: dict[int, _Key] = {}

    def register(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> _Key:
        """Watch a file descriptor for the current process, or when it continues."""
        process = CURRENT.get()
        if process is not None and process.is_paused:
            key = self._paused[_number(fileobj)] = _Key(fileobj, _number(fileobj), events, data)
        else:
            key = super().register(fileobj, events, data)
        if process is not None:
            self._owners[key.fd] = process
        return key

    def modify(self, fileobj: FileDescriptorLike, events: int, data: Any = None) -> _Key:
        """Change what is watched; the process stays the same."""
        fd = _number(fileobj)
        if fd in self._paused:
            key = self._paused[fd] = self._paused[fd]._replace(events=events, data=data)
            return key
        owner = self._owners.get(fd)
        key = super().modify(fileobj, events, data)
        if owner is not None:  # some selectors unregister and register
            self._owners[fd] = owner
        return key

    def unregister(self, fileobj: FileDescriptorLike) -> _Key:
        """Stop watching a file descriptor."""
        key = self._paused.pop(_number(fileobj), None) or super().unregister(fileobj)
        self._owners.pop(key.fd, None)
        return key

    def get_map(self) -> Mapping[FileDescriptorLike, _Key]:
        """Return the keys of all file descriptors, also of those of paused processes."""
        watched = super().get_map()
        return _Keys(self._paused, watched) if self._paused else watched

    def pause(self, process: Process) -> None:
        """Stop watching the file descriptors of a process."""
        for fd in [fd for fd, owner in self._owners.items() if owner is process and fd not in self._paused]:
            self._paused[fd] = super().unregister(fd)

    def resume(self, process: Process) -> None:
        """Watch the file descriptors of a process again."""
        for fd in [fd for fd in self._paused if self._owners[fd] is process]:
            key = self._paused.pop(fd)
            super().register(key.fileobj, key.events, key.data)


class _Keys(Mapping["FileDescriptorLike", _Key]):
    """The map of a selector in which some file descriptors are paused."""

    def __init__(self, paused: Mapping[int, _Key], watched: Mapping[FileDescriptorLike, _Key]) -> None:
        self._paused = paused
        self._watched = watched

    def __getitem__(self, fileobj: FileDescriptorLike) -> _Key:
        return self._paused.get(_number(fileobj)) or self._watched[fileobj]

    def __iter__(self) -> Iterator[FileDescriptorLike]:
        yield from self._watched
        yield from self._paused

    def __len__(self) -> int:
        return len(self._watched) + len(self._paused)


def _number(fileobj: FileDescriptorLike) -> int:
    return fileobj if isinstance(fileobj, int) else fileobj.fileno()
