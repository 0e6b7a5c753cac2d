"""Producer ids for idempotent producers: brokers take blocks of them from the registry, so that ids are unique."""

from __future__ import annotations

import asyncio

from broker.errors import RequestError
from protocol.error_codes import ErrorCode
from registry.errors import BadVersionError, ConnectionLossError, SessionExpiredError
from registry.interface import Registry
from registry.znodes.controller import ProducerIdBlockZnode

BLOCK_SIZE = 1000


class ProducerIds:
    """Assigns producer ids from this broker's current block."""

    def __init__(self, broker_id: int, registry: Registry) -> None:
        self._broker_id = broker_id
        self._registry = registry
        self._next = 0
        self._end = 0  # exclusive
        self._lock = asyncio.Lock()

    async def next(self) -> int:
        """Return an unused producer id.

        Raises RequestError if the registry cannot be reached for a new block, with the code that makes producers of
        all versions retry (as in Kafka), and RegistryError.
        """
        if self._next >= self._end:
            try:
                await self.take_block()
            except (ConnectionLossError, SessionExpiredError) as error:
                raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids: {error}") from error
        self._next += 1
        return self._next - 1

    async def take_block(self) -> None:
        """Take a new block from the registry, unless the current block has ids left. Raises RegistryError."""
        async with self._lock:
            while self._next >= self._end:
                await self._take_block()

    async def take_block_for(self, broker_id: int) -> int:
        """Take a block of BLOCK_SIZE ids for `broker_id`, and return the first id. Raises RegistryError."""
        while True:
            start = await self._try_block(broker_id)
            if start is not None:
                return start

    async def _take_block(self) -> None:
        start = await self._try_block(self._broker_id)
        if start is not None:
            self._next, self._end = start, start + BLOCK_SIZE

    async def _try_block(self, broker_id: int) -> int | None:
        """Take a block, and return its first id; None if another broker changed the znode meanwhile."""
        path = ProducerIdBlockZnode.path()
        data, stat = await self._registry.get(path)
        start = 0 if data is None else ProducerIdBlockZnode.decode(data, path).block_end + 1
        block = ProducerIdBlockZnode(broker=broker_id, block_start=start, block_end=start + BLOCK_SIZE - 1)
        try:
            await self._registry.set(path, block.encode(), stat.version)
        except BadVersionError:
            return None
        return start
