"""Run the asynchronous part of a command, and print its messages.

This module does not import the client, which takes 80 ms: commands that start servers do without it.
"""

import asyncio
import signal
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from client.wire.event_loop import new_event_loop
from ottla.command_line.output import discard

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, on uvloop if it is installed.

    Ctrl-C, SIGTERM and SIGHUP (the terminal is closed) cancel the coroutine, so that it closes its clients: a consumer
    leaves its group. Then KeyboardInterrupt is raised for Ctrl-C, and SystemExit with 128 + number for another signal.
    """
    received: list[int] = []
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        try:
            return runner.run(_cancelled_by_signals(main, received))
        except asyncio.CancelledError:
            if not received:
                raise
            raise SystemExit(128 + received[0]) from None


async def _cancelled_by_signals(main: Coroutine[Any, Any, T], received: list[int]) -> T:
    """Await `main`; cancel it on the first SIGTERM or SIGHUP. Append the number of every signal to `received`."""
    task = asyncio.current_task()
    assert task is not None

    def stop(number: int) -> None:
        if not received:  # shells and `timeout` send a signal twice: the second one must not interrupt the cleanup
            task.cancel()
        received.append(number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        is_default = signal.getsignal(number) is signal.SIG_DFL  # else nohup
        if is_default and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
    return await main


def on_stop_signals(stop: Callable[[], object]) -> None:
    """Call `stop` on SIGTERM, SIGINT (Ctrl-C) and SIGHUP (the terminal is closed). Needs a running loop.

    For commands whose child processes have their own sessions and would otherwise continue.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            loop.add_signal_handler(number, stop)


def say(text: str) -> None:
    """Print a message on standard error, so that piped output contains only data."""
    try:
        print(text, file=sys.stderr)
    except OSError:  # the terminal is closed
        discard(sys.stderr)
