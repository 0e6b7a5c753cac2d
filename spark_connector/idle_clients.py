"""The clients of a Spark Python worker: their connections outlive a task and serve the next one.

A task takes an idle client with its options, and puts it back at its end. A client that is idle for a minute is closed.
"""

import asyncio
import os
from collections.abc import Mapping
from typing import Any, Final, Generic, Protocol, TypeVar

IDLE_S: Final = 60.0

_Key = tuple[tuple[str, Any], ...]


class Client(Protocol):
    """A client that can be kept."""

    async def close(self) -> None:
        """Close the connections."""
        ...


C = TypeVar("C", bound=Client)


class IdleClients(Generic[C]):
    """Clients that wait for a task. Use them only in the event loop."""

    def __init__(self, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._waiting: list[tuple[_Key, C, asyncio.TimerHandle]] = []
        self._closing: set[asyncio.Task[None]] = set()
        self._owner = -1

    def __len__(self) -> int:
        return len(self._waiting)

    def take(self, options: Mapping[str, Any]) -> C | None:
        """Remove and return a client with these options; None if there is none."""
        self._forget_the_parents()
        wanted = _key(options)
        for place, (key, client, timer) in enumerate(self._waiting):
            if key == wanted:
                timer.cancel()
                del self._waiting[place]
                return client
        return None

    def put(self, client: C, options: Mapping[str, Any]) -> None:
        """Keep a client that has these options."""
        self._forget_the_parents()
        timer = asyncio.get_running_loop().call_later(self._idle_s, self._expire, client)
        self._waiting.append((_key(options), client, timer))

    def _forget_the_parents(self) -> None:
        """Drop the clients that a forked process has inherited: they belong to its parent."""
        if self._owner != os.getpid():
            self._waiting.clear()
            self._owner = os.getpid()

    def _expire(self, client: C) -> None:
        self._waiting = [one for one in self._waiting if one[1] is not client]
        task = asyncio.get_running_loop().create_task(client.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _key(options: Mapping[str, Any]) -> _Key:
    return tuple(sorted(options.items()))
