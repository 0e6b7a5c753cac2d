"""The clients of the application: one admin client and one producer for all requests, opened when first needed.

So the application starts before the cluster can be reached, and a request says that it cannot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, Self, TypeVar

from client.admin.admin import Admin
from client.producer.producer import Producer

_UNKNOWN_CLUSTER = "unknown"


class _Client(Protocol):
    async def start(self) -> None: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=_Client)


class _Opened(Generic[C]):
    """One client, opened by the first request that needs it. If that fails, the next request tries again."""

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._one_at_a_time = asyncio.Lock()
        self._client: C | None = None

    async def get(self) -> C:
        async with self._one_at_a_time:
            if self._client is None:
                client = self._make()
                try:
                    await client.start()
                except BaseException:
                    await client.close()
                    raise
                self._client = client
            return self._client

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None


class Clients:
    """The clients. An asynchronous context manager, which closes them."""

    def __init__(self, new_admin: Callable[[], Admin], new_producer: Callable[[], Producer]) -> None:
        """new_producer: must not let the broker create topics."""
        self._admin = _Opened(new_admin)
        self._producer = _Opened(new_producer)
        self._cluster_id: str | None = None

    async def admin(self) -> Admin:
        """Return the admin client. Raises NoBrokersAvailableError."""
        return await self._admin.get()

    async def producer(self) -> Producer:
        """Return the producer. Raises NoBrokersAvailableError."""
        return await self._producer.get()

    async def cluster_id(self) -> str:
        """Return the id of the cluster; "unknown" if its brokers have none (before Kafka 0.10.1)."""
        if self._cluster_id is None:
            described = await (await self.admin()).describe_cluster()
            self._cluster_id = described.cluster_id or _UNKNOWN_CLUSTER
        return self._cluster_id

    async def close(self) -> None:
        """Close the clients. Records that the producer has accepted are sent first."""
        await self._producer.close()
        await self._admin.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
