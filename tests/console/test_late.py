"""What is made when it is first needed: once, for all who wait, and the same as if it had been there before."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import aiohttp
import pytest
from aiohttp import web

from console.late import Late, LateResource
from support.broker import ROOT
from support.rest import served


async def test_all_who_wait_get_the_value_that_is_made_once():
    made = []
    go_on = asyncio.Event()

    async def make():
        await go_on.wait()
        made.append(len(made))
        return made[-1]

    late = Late(make)
    waiting = [asyncio.create_task(late.get()) for _ in range(3)]
    left = asyncio.create_task(late.get())
    await asyncio.sleep(0)
    left.cancel()
    assert late.made is None
    go_on.set()
    assert await asyncio.gather(*waiting) == [0, 0, 0]
    assert late.made == 0
    assert await late.get() == 0


async def test_whoever_waits_gets_the_error():
    async def make():
        raise ImportError("no such module")

    late = Late(make)
    for _ in range(2):
        with pytest.raises(ImportError, match="no such module"):
            await late.get()
    assert late.made is None


async def test_nothing_is_made_after_the_end():
    late = Late(asyncio.Event().wait)
    waiting = asyncio.create_task(late.get())
    await asyncio.sleep(0)
    late.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert late.made is None


async def test_the_application_is_made_by_the_first_request_below_its_path():
    made = []

    async def hello(request):
        return web.Response(text=f"{request.match_info['name']}, {request.match_info.route.resource.canonical}")

    async def make():
        made.append(1)
        inner, outer = web.Application(), web.Application()
        inner.router.add_get("/hello/{name}", hello)
        outer.add_subapp("/v3", inner)
        outer.freeze()
        return outer

    application = web.Application()
    application.router.register_resource(LateResource("/v3", Late(make)))
    async with served(application) as url, aiohttp.ClientSession(url) as http:

        async def ask(method, path):
            async with http.request(method, path) as response:
                return response.status, await response.text()

        assert (await ask("GET", "/elsewhere"))[0] == 404
        assert made == []
        assert await ask("GET", "/v3/hello/a%2Fb") == (200, "a/b, /v3/hello/{name}")
        assert (await ask("POST", "/v3/hello/you"))[0] == 405
        assert (await ask("GET", "/v3/nothing"))[0] == 404
        assert made == [1]


@pytest.mark.parametrize(
    ("modules", "without"),
    [
        ("broker.console.application", ["pydantic", "client.admin.admin"]),
        (
            "broker.console.application, broker.console.mounted, console.v1.session, console.v1.overview",
            ["pydantic", "client.producer.producer", "console.v3.table"],
        ),
    ],
    ids=["health", "the first page"],
)
def test_what_is_imported(modules, without):
    script = f"import sys, {modules}; print([name for name in {without} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr
