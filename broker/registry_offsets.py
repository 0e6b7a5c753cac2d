"""Consumer offsets in the registry, which version 0 of OffsetCommit and OffsetFetch writes and reads."""

from __future__ import annotations

from broker.errors import RequestError
from protocol.error_codes import ErrorCode
from registry.errors import NodeExistsError, NoNodeError
from registry.interface import Registry
from registry.repeated_writes import RepeatedWrites
from registry.znodes.consumers import ConsumerOffsetZnode


class RegistryOffsets:
    """`/consumers/<group>/offsets/<topic>/<partition>`. Raises RequestError if a group id is not a valid znode name."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._writes = RepeatedWrites(registry)

    async def get(self, group: str, topic: str, partition: int) -> int | None:
        """Return the offset of a partition; None if there is none. Raises RegistryError."""
        path = _path(group, topic, partition)
        try:
            data, _ = await self._registry.get(path)
        except NoNodeError:
            return None
        return ConsumerOffsetZnode.decode(data, path).offset

    async def set(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Store an offset. Raises RegistryError."""
        path = _path(group, topic, partition)
        data = ConsumerOffsetZnode(offset=offset).encode()
        try:
            await self._writes.set(path, data)
            return
        except NoNodeError:
            pass
        try:
            await self._writes.create(path, data, make_parents=True)
        except NodeExistsError:  # created meanwhile
            await self._writes.set(path, data)


def _path(group: str, topic: str, partition: int) -> str:
    if group in ("", ".", "..") or any(character == "/" or character < " " for character in group):
        raise RequestError(
            ErrorCode.INVALID_GROUP_ID,
            f"the registry cannot store offsets of group {group!r}: its id is not a valid znode name",
        )
    return ConsumerOffsetZnode.path(group, topic, partition)
