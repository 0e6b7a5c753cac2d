"""Run child processes in the foreground, until a signal ends the command or nothing is left to watch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Literal, Protocol

from ottla.command_line.running import on_stop_signals, say


class Children(Protocol):
    """Brokers and their registry as child processes."""

    async def start(self) -> None:
        """Start all processes and wait until the brokers serve clients. Raises CommandError."""

    async def watch(self) -> None:
        """Watch the processes. Returns when there is nothing left to watch."""

    async def stop(self) -> None:
        """Stop the brokers, then the registry. Idempotent."""

    def kill(self) -> None:
        """Kill the brokers at once; a running `stop` continues."""


async def run_in_foreground(
    children: Children, on_ready: Callable[[], None], on_stopping: Callable[[], None] = lambda: None
) -> bool:
    """Run the processes until a signal: a second one kills the brokers. Return False if nothing was left to watch.

    on_ready: called when the brokers serve clients. on_stopping: called when the first signal has arrived.
    """
    stop = asyncio.Event()

    def signalled() -> None:
        if stop.is_set():
            children.kill()
        else:
            stop.set()
            on_stopping()

    on_stop_signals(signalled)
    stopping = asyncio.create_task(stop.wait())
    try:
        if await _finished(children.start(), stopping):
            on_ready()
            if await _finished(children.watch(), stopping):
                return False
        say("stopping the brokers, then the registry; Ctrl-C again kills the brokers")
        return True
    finally:
        stop.set()
        await children.stop()


async def _finished(work: Coroutine[Any, Any, None], stopping: asyncio.Task[Literal[True]]) -> bool:
    """Await `work` and return True; if `stopping` finishes first, cancel `work` and return False.

    Raises the exceptions of `work`.
    """
    doing = asyncio.create_task(work)
    await asyncio.wait([doing, stopping], return_when=asyncio.FIRST_COMPLETED)
    if not doing.done():
        doing.cancel()
        await asyncio.wait([doing])
        return False
    await doing
    return True
