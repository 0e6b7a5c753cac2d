"""Who wants to hear of a registry's connection: callbacks that run on the event loop, in the order of the changes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.interface import ConnectionState


class StateListener:
    """One registration (the interface's Watch)."""

    __slots__ = ("_callback", "_group")

    def __init__(self, callback: Callable[[ConnectionState], None], group: list[StateListener]) -> None:
        self._callback: Callable[[ConnectionState], None] | None = callback
        self._group = group
        group.append(self)

    def cancel(self) -> None:
        """Call the callback no more. Idempotent."""
        self._callback = None
        if self in self._group:
            self._group.remove(self)

    def call(self, state: ConnectionState) -> None:
        """Tell the callback, unless it was cancelled meanwhile."""
        if self._callback is not None:
            self._callback(state)


class StateListeners:
    """All listeners of one registry."""

    def __init__(self) -> None:
        self._listeners: list[StateListener] = []

    def add(self, callback: Callable[[ConnectionState], None]) -> StateListener:
        """Register a callback."""
        return StateListener(callback, self._listeners)

    def tell(self, state: ConnectionState) -> None:
        """Have every callback run soon on the running loop."""
        for listener in tuple(self._listeners):
            asyncio.get_running_loop().call_soon(listener.call, state)

    def clear(self) -> None:
        """Forget all of them; calls that are under way still come."""
        self._listeners.clear()
