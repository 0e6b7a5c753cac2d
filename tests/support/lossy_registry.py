"""A registry whose connection breaks once, at one of the next writes."""

from __future__ import annotations

from typing import Any

from registry.errors import ConnectionLossError


class LossyRegistry:
    """A registry that forwards everything to another one. Set `writes_left` and `is_applied` for a loss."""

    def __init__(self, registry: Any) -> None:
        self.registry = registry
        self.writes_left: int | None = None
        """The number of the write that is lost, from 1; None without a loss."""
        self.is_applied = False
        """Whether that write is applied, and its answer lost."""
        self.is_lost = False
        """Whether a write was lost."""

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.registry, name)
        if name not in ("create", "set", "delete", "multi"):
            return method

        async def write(*args: Any, **named: Any) -> Any:
            if self.writes_left is None:
                return await method(*args, **named)
            self.writes_left -= 1
            if self.writes_left:
                return await method(*args, **named)
            self.writes_left = None
            self.is_lost = True
            if self.is_applied:
                await method(*args, **named)
            raise ConnectionLossError("the connection is lost")

        return write
