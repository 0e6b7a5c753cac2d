"""Producer ids for idempotent producers: taken from the registry in blocks, so that no two brokers give the same."""

from __future__ import annotations

import asyncio

from registry.controller_znodes import ProducerIdBlockZnode
from registry.errors import BadVersionError
from registry.interface import Registry

BLOCK_SIZE = 1000


class ProducerIds:
    """The block that this broker is giving out."""

    def __init__(self, broker_id: int, registry: Registry) -> None:
        self._broker_id = broker_id
        self._registry = registry
        self._next = 0
        self._end = 0  # exclusive
        self._lock = asyncio.Lock()

    async def next(self) -> int:
        """A producer id that nobody has had. Raises RegistryError while no new block can be had."""
        if self._next >= self._end:
            async with self._lock:
                while self._next >= self._end:
                    await self._take_block()
        self._next += 1
        return self._next - 1

    async def _take_block(self) -> None:
        path = ProducerIdBlockZnode.path()
        data, stat = await self._registry.get(path)
        start = 0 if data is None else ProducerIdBlockZnode.decode(data, path).block_end + 1
        block = ProducerIdBlockZnode(broker=self._broker_id, block_start=start, block_end=start + BLOCK_SIZE - 1)
        try:
            await self._registry.set(path, block.encode(), stat.version)
        except BadVersionError:
            return  # another broker was faster: look again
        self._next, self._end = start, start + BLOCK_SIZE
