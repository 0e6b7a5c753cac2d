"""The event loop that a Python worker of Spark keeps in a thread: the client is asyncio, Spark calls functions.

One loop for each process, started when it is first needed. A process that was forked off starts one of its own.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_owner = -1


def event_loop() -> asyncio.AbstractEventLoop:
    """The loop of this process, running."""
    global _loop, _owner
    with _lock:
        if _loop is None or _owner != os.getpid():
            _loop, _owner = asyncio.new_event_loop(), os.getpid()
            threading.Thread(target=_loop.run_forever, name="ottla-client", daemon=True).start()
        return _loop


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine there, and wait for what it returns or raises. An interrupt of the caller cancels it."""
    future = asyncio.run_coroutine_threadsafe(coroutine, event_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
