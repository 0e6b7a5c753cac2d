"""Streams of events end with their console."""

import asyncio
from types import SimpleNamespace

import aiohttp
from aiohttp import web

from console.application import add_console
from console.late import Late
from console.rest.event_stream import event_stream
from console.services import ConsoleServices
from support.deadlines import DEADLINE_S


async def test_an_open_stream_does_not_delay_the_stop():
    services = ConsoleServices(clients=None)

    async def follow(request):
        async with event_stream(SimpleNamespace(services=services, request=request)) as events:
            async for _ in events.ticks(0.01):
                pass
        return events.response

    async def made():
        return services

    application = web.Application()
    application.router.add_get("/follow", follow)
    late = Late(made)
    await late.get()
    add_console(application, late)
    runner = web.AppRunner(application, shutdown_timeout=10 * DEADLINE_S)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    async with aiohttp.ClientSession(f"http://{host}:{port}") as http, http.get("/follow") as response:
        assert response.status == 200
        assert len(services.streams.open) == 1
        async with asyncio.timeout(DEADLINE_S):
            await runner.cleanup()
    assert not services.streams.open
