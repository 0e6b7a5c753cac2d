"""Listeners for the connection state of a registry. They run on the event loop, in the order of the changes.

A listener runs in the context (contextvars) in which it was registered.
"""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.interface import ConnectionState


class StateListener:
    """The registration of one callback (the interface's Watch)."""

    __slots__ = ("_callback", "_group", "context")

    def __init__(self, callback: Callable[[ConnectionState], None], group: list[StateListener]) -> None:
        self._callback: Callable[[ConnectionState], None] | None = callback
        self._group = group
        self.context = contextvars.copy_context()
        group.append(self)

    def cancel(self) -> None:
        """Stop calling the callback. Idempotent."""
        self._callback = None
        if self in self._group:
            self._group.remove(self)

    def call(self, state: ConnectionState) -> None:
        """Call the callback, unless the registration was cancelled."""
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
        """Schedule every callback on the running event loop."""
        for listener in tuple(self._listeners):
            asyncio.get_running_loop().call_soon(listener.call, state, context=listener.context)

    def clear(self) -> None:
        """Remove all listeners; calls that are already scheduled still run."""
        self._listeners.clear()
