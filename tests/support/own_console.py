"""The console of a broker in this process: its REST API, and its server-sent events."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp

from broker.broker import Broker
from support.deadlines import DEADLINE_S
from support.rest import Rest


@contextlib.asynccontextmanager
async def own_console(broker: Broker, **headers: str) -> AsyncIterator[Rest]:
    """The REST API of a broker's own console. headers: of each request."""
    assert broker.console is not None
    assert broker.services is not None
    async with aiohttp.ClientSession(headers=headers) as http:
        yield Rest(http, broker.console.url.removesuffix("/"), broker.services.cluster_id)


class Events:
    """Server-sent events, one at a time."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def next(self, wanted: str) -> Any:
        """The data of the next event of this name."""
        async with asyncio.timeout(DEADLINE_S):
            name = ""
            while line := (await self.response.content.readline()).decode().rstrip("\n"):
                field, _, value = line.partition(": ")
                if field == "event":
                    name = value
                elif field == "data" and name == wanted:
                    await self.response.content.readline()
                    return json.loads(value)
                if field in ("data", ""):
                    await self.response.content.readline()
        raise AssertionError("the stream has ended")


@contextlib.asynccontextmanager
async def listening(rest: Rest, path: str) -> AsyncIterator[Events]:
    """A stream of events, which is left at the end."""
    async with rest.http.get(rest.full(path), timeout=aiohttp.ClientTimeout(total=None)) as response:
        assert response.status == 200, await response.text()
        yield Events(response)
