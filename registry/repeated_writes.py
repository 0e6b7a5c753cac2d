"""Writes that are repeated when the connection is lost while they are in flight.

Whether such a write was applied is unknown. It was if the node is afterwards as it would have left it; otherwise it is
sent again. Kafka's client repeats every request. (Not for claims: two clients that write the same would both have won.)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from registry.errors import BadVersionError, ConnectionLossError, NodeExistsError, NoNodeError
from registry.interface import ANY_VERSION, Registry


class RepeatedWrites:
    """Writes to a registry. They wait until the connection is restored, and raise SessionExpiredError if it is not."""

    __slots__ = ("_registry",)

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def create(self, path: str, data: bytes | None = None, *, make_parents: bool = False) -> None:
        """Create a node. Raises NodeExistsError if there is another one."""

        async def is_created() -> bool:
            try:
                return (await self._registry.get(path))[0] == data
            except NoNodeError:
                return False

        await _repeat(lambda: self._registry.create(path, data, make_parents=make_parents), is_created)

    async def append(self, path: str, data: bytes | None) -> None:
        """Create a sequential node; two of them, if the connection is lost in the wrong moment."""

        async def is_created() -> bool:
            return False

        await _repeat(lambda: self._registry.create(path, data, sequence=True), is_created)

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> None:
        """Replace the data of a node."""

        async def is_set() -> bool:
            found, stat = await self._registry.get(path)
            return found == data and stat.version == version + 1

        await _repeat(lambda: self._registry.set(path, data, version), is_set)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node."""

        async def is_deleted() -> bool:
            return await self._registry.exists(path) is None

        await _repeat(lambda: self._registry.delete(path, version), is_deleted)


async def _repeat(write: Callable[[], Awaitable[object]], is_applied: Callable[[], Awaitable[bool]]) -> None:
    """Write until there is an answer. is_applied: asked if a repetition is refused."""
    is_repetition = False
    while True:
        try:
            await write()
        except ConnectionLossError:
            is_repetition = True
        except (NodeExistsError, BadVersionError, NoNodeError):
            if not is_repetition or not await is_applied():
                raise
            return
        else:
            return
