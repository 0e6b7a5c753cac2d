"""Producer ids for idempotent producers: taken from the registry in blocks, so that no two brokers give the same."""

from __future__ import annotations

import asyncio

from broker.errors import RequestError
from protocol.error_codes import ErrorCode
from registry.errors import BadVersionError, ConnectionLossError, SessionExpiredError
from registry.interface import Registry
from registry.znodes.controller import ProducerIdBlockZnode

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
        """A producer id that nobody has had.

        Raises RequestError while no new block can be had, with the code that producers of any age ask again after (as
        Kafka's do), and RegistryError.
        """
        if self._next >= self._end:
            try:
                await self.take_block()
            except (ConnectionLossError, SessionExpiredError) as error:
                raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no producer ids: {error}") from error
        self._next += 1
        return self._next - 1

    async def take_block(self) -> None:
        """Take a block before it is needed. Raises RegistryError."""
        async with self._lock:
            while self._next >= self._end:
                await self._take_block()

    async def take_block_for(self, broker_id: int) -> int:
        """The first of BLOCK_SIZE producer ids that `broker_id` may give out. Raises RegistryError."""
        while True:
            start = await self._try_block(broker_id)
            if start is not None:
                return start

    async def _take_block(self) -> None:
        start = await self._try_block(self._broker_id)
        if start is not None:
            self._next, self._end = start, start + BLOCK_SIZE

    async def _try_block(self, broker_id: int) -> int | None:
        """None where another broker was faster: look again."""
        path = ProducerIdBlockZnode.path()
        data, stat = await self._registry.get(path)
        start = 0 if data is None else ProducerIdBlockZnode.decode(data, path).block_end + 1
        block = ProducerIdBlockZnode(broker=broker_id, block_start=start, block_end=start + BLOCK_SIZE - 1)
        try:
            await self._registry.set(path, block.encode(), stat.version)
        except BadVersionError:
            return None
        return start
