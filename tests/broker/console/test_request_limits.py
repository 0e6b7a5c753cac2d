"""How many requests the console answers at the same time, counted and over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import aiohttp
import pytest
from aiohttp import web

from broker.console.acceptor import ConsoleConnection
from broker.console.front import BACKLOG, ConsoleFront
from broker.console.guard import Guard
from broker.console.http_serving import serve
from broker.console.request_limits import RequestLimits, TooManyRequestsError
from broker.settings.config import BrokerConfig
from protocol.host_port import HostPort
from support.polling import until


def test_each_address_has_a_limit_and_all_have_one() -> None:
    limits = RequestLimits(max_requests=3, max_of_address=2)
    with limits.counted("a"), limits.counted("a"):
        with pytest.raises(TooManyRequestsError) as caught, limits.counted("a"):
            pass
        assert caught.value.of_address
        with limits.counted("b"):
            with pytest.raises(TooManyRequestsError) as caught, limits.counted("c"):
                pass
            assert not caught.value.of_address
        with limits.counted("c"):
            pass
    with limits.counted("a"), limits.counted("a"):
        pass


class Streams:
    """Requests to `/live` stay open until the client is gone."""

    def __init__(self) -> None:
        self.open = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        self.open += 1
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.open -= 1
        return response


@pytest.fixture
async def streams() -> Streams:
    return Streams()


@pytest.fixture
async def url(streams: Streams) -> AsyncIterator[str]:
    """A console that answers two requests of an address."""
    front = ConsoleFront(BrokerConfig.load(), HostPort("127.0.0.1", 0), None, None, lambda: 0)
    await front.bind()
    guard = Guard(front, RequestLimits(max_requests=3, max_of_address=2))
    application = web.Application(middlewares=[guard.check])
    application.router.add_get("/live", streams.answer)
    application.router.add_get("/healthz", streams.answer)
    stop = await serve(application, front.sockets, None, BACKLOG)
    try:
        yield f"http://127.0.0.1:{front.port}"
    finally:
        await stop()
        front.close()


async def test_many_streams_leave_health_and_give_back_their_places(
    url: str, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with aiohttp.ClientSession(url) as http, AsyncExitStack() as stack:
        first = await http.get("/live")
        await stack.enter_async_context(http.get("/live"))
        async with http.get("/live") as refused:
            assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
        async with http.get("/healthz") as health:
            assert health.status == 200
        monkeypatch.setattr(
            ConsoleConnection, "host", property(lambda _: "192.0.2.7", lambda _, __: None), raising=False
        )
        await stack.enter_async_context(http.get("/live"))
        async with http.get("/live") as refused:
            assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
        first.close()
        await until(lambda: streams.open == 2, "the stream of a client that is gone ends")
        await stack.enter_async_context(http.get("/live"))
