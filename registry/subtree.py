"""A node with all nodes below it."""

from __future__ import annotations

import contextlib

from registry.errors import NoNodeError
from registry.interface import Registry


async def delete_subtree(registry: Registry, path: str) -> None:
    """Delete a node and all nodes below it; do nothing if it does not exist.

    This is not one operation: others may see a part of it, and what they create meanwhile may stay. Raises
    NotEmptyError then, and RegistryError.
    """
    with contextlib.suppress(NoNodeError):
        for name in await registry.children(path):
            await delete_subtree(registry, f"{path}/{name}")
        await registry.delete(path)
