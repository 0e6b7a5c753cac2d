"""The bodies of requests: too large, too slow, too many."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web

from console.rest.answering import answer_errors, error_response
from console.rest.bodies import Bodies
from console.rest.errors import RestError
from support.polling import until
from support.rest import served


class Reading:
    """Answers with the size of each body; `held` ones wait for `release` first."""

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self.release = asyncio.Event()
        self.read = 0

    async def answer(self, request: web.Request) -> web.Response:
        try:
            with self._bodies.body() as body:
                size = len(await body.read(request))
                self.read += 1
                if "held" in request.query:
                    await self.release.wait()
                return web.json_response(size)
        except RestError as error:
            return error_response(error)


@contextlib.asynccontextmanager
async def reading(bodies: Bodies) -> AsyncIterator[tuple[Reading, aiohttp.ClientSession]]:
    found = Reading(bodies)
    application = web.Application(middlewares=[answer_errors])
    application.router.add_post("/", found.answer)
    async with served(application) as url, aiohttp.ClientSession(url) as http:
        yield found, http


async def slow() -> AsyncIterator[bytes]:
    """A body that begins and never ends."""
    yield b"{"
    await asyncio.get_running_loop().create_future()


async def pieces(size: int) -> AsyncIterator[bytes]:
    """A body without a Content-Length."""
    yield b"x" * size


@pytest.mark.parametrize("sent", [pytest.param(lambda: b"x" * 11, id="length"), pytest.param(lambda: pieces(11))])
async def test_a_body_that_is_too_large_is_refused(sent: object) -> None:
    assert callable(sent)
    async with reading(Bodies(max_body=10)) as (_, http):
        async with http.post("/", data=sent()) as response:
            assert response.status == 413
            assert "at most 10 bytes" in (await response.json())["message"]
        async with http.post("/", data=b"x" * 10) as response:
            assert await response.json() == 10


async def test_a_body_that_is_too_slow_is_refused() -> None:
    async with reading(Bodies(timeout_s=0.05)) as (_, http), http.post("/", data=slow()) as response:
        assert response.status == 408
        assert "within 0.05 s" in (await response.json())["message"]


async def test_the_bodies_in_memory_have_a_limit_together() -> None:
    async with reading(Bodies(max_body=10, max_bodies=15)) as (found, http):
        held = asyncio.ensure_future(http.post("/?held", data=b"x" * 10))
        await until(lambda: found.read == 1, "the first body is read")
        async with http.post("/", data=b"x" * 10) as response:
            assert (response.status, response.headers["Retry-After"]) == (503, "1")
        async with http.post("/", data=b"x" * 5) as response:
            assert await response.json() == 5
        found.release.set()
        async with await held as response:
            assert json.loads(await response.text()) == 10
        async with http.post("/", data=b"x" * 10) as response:
            assert response.status == 200
