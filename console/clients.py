"""The clients of the application: one admin client and one producer for all requests, opened when first needed.

So the application starts before the cluster can be reached, and a request says that it cannot.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, Protocol, Self, TypeVar

from client.admin.admin import Admin

if TYPE_CHECKING:
    from client.producer.producer import Producer

API_TIMEOUT_MS: Final = 15_000
"""How long a call of the admin client may take, with all retries: its `default_api_timeout_ms`."""
REQUEST_TIMEOUT_MS: Final = 6_000
"""How long one broker may take to answer: then another one is asked, if any can answer."""

_UNKNOWN_CLUSTER = "unknown"


class _Client(Protocol):
    async def start(self) -> None: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=_Client)


class _Opened(Generic[C]):
    """One client, opened by the first request that needs it. If that fails, the next request tries again.

    Requests that arrive meanwhile share the attempt and its error: they do not wait for one attempt each.
    """

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._opening: asyncio.Task[C] | None = None
        self._client: C | None = None

    @property
    def current(self) -> C | None:
        """The client if it is open."""
        return self._client

    async def get(self) -> C:
        if self._client is not None:
            return self._client
        if self._opening is None:
            self._opening = asyncio.create_task(self._open())
            self._opening.add_done_callback(self._opened)
        return await asyncio.shield(self._opening)  # others need it even if this request ends

    async def _open(self) -> C:
        client = self._make()
        try:
            await client.start()
        except BaseException:
            await client.close()
            raise
        return client

    def _opened(self, task: asyncio.Task[C]) -> None:
        self._opening = None
        if not task.cancelled() and task.exception() is None:
            self._client = task.result()

    async def close(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
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

    async def abort(self) -> None:
        """Close the clients at once. Records that are not acknowledged yet fail."""
        if self._producer.current is not None:
            await self._producer.current.close(timeout_s=0)
        await self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
