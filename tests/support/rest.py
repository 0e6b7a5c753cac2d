"""The REST API of the console for a cluster, on a free port of this machine, and the shapes of its answers."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import aiohttp
from aiohttp import web

from broker.console.http_serving import add_security_headers
from client.admin.admin import Admin
from client.producer.producer import Producer
from console.application import console_application
from console.clients import REQUEST_TIMEOUT_MS, Clients
from console.decoding.schema_cache import SchemaCache
from console.services import ConsoleServices
from support.deadlines import DEADLINE_MS
from support.reference import REFERENCE


class Answer(NamedTuple):
    """An answer of the API. `body` is None if there is none."""

    status: int
    body: Any
    headers: dict[str, str]


class Rest:
    """A client of the API. Paths are those below the cluster, unless they begin with `/`."""

    def __init__(self, http: aiohttp.ClientSession, url: str, cluster_id: str) -> None:
        self.http = http
        self.url = url
        self.cluster_id = cluster_id

    def full(self, path: str) -> str:
        """The URL of a path."""
        return self.url + (path if path.startswith("/") else f"/v3/clusters/{self.cluster_id}/{path}".rstrip("/"))

    async def ask(self, method: str, path: str, body: Any = None, **options: Any) -> Answer:
        """Send a request, with a body of JSON if there is one."""
        if body is not None:
            options["json"] = body
        async with self.http.request(method, self.full(path), **options) as response:
            data = await response.read()
            found = json.loads(data) if response.content_type == "application/json" and data else None
            return Answer(response.status, found, dict(response.headers))

    async def get(self, path: str, **options: Any) -> Any:
        """The body of a successful GET."""
        answer = await self.ask("GET", path, **options)
        assert answer.status == 200, answer
        return answer.body


@contextlib.asynccontextmanager
async def served(application: web.Application) -> AsyncIterator[str]:
    """Serve an application; yield its URL."""
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def rest_api(
    bootstrap_servers: str, schemas: SchemaCache | None = None, *, timeout_ms: int = DEADLINE_MS, **login: Any
) -> AsyncIterator[Rest]:
    """Serve the API for a cluster.

    schemas: those of its schema registry. timeout_ms: of a call of the admin client. login: options of the clients.
    """

    def admin() -> Admin:
        return Admin(
            bootstrap_servers=bootstrap_servers,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            default_api_timeout_ms=timeout_ms,
            **login,
        )

    def producer() -> Producer:
        return Producer(bootstrap_servers=bootstrap_servers, allow_auto_create_topics=False, **login)

    async with (
        Clients(admin, producer) as clients,
        served(_with_headers(console_application(ConsoleServices(clients, schemas=schemas or SchemaCache())))) as url,
        aiohttp.ClientSession() as http,
    ):
        yield Rest(http, url, await clients.cluster_id())


def _with_headers(application: web.Application) -> web.Application:
    """The application with the headers that every console sends: pages must work with its Content-Security-Policy."""
    application.on_response_prepare.append(add_security_headers)
    return application


# -- the recorded operations ------------------------------------------------------------------------------------------


@functools.cache
def recorded() -> dict[str, dict[str, Any]]:
    """The operations of Confluent's REST Proxy, by method and path."""
    lines = (REFERENCE / "rest-v3.jsonl").read_text().splitlines()
    return {f"{one['method']} {one['path']}": one for one in map(json.loads, lines)}


def differences(shape: Any, value: Any, where: str = "body") -> list[str]:
    """What of a JSON value differs from a recorded shape."""
    if isinstance(shape, dict):
        if not isinstance(value, dict):
            return [f"{where}: {value!r} is no object"]
        return _differences_of_object(shape, value, where)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return [f"{where}: {value!r} is no array"]
        return [one for number, item in enumerate(value) for one in differences(shape[0], item, f"{where}[{number}]")]
    return [] if _has_type(shape, value) else [f"{where}: {value!r} is not {shape}"]


def _differences_of_object(shape: dict[str, Any], value: dict[str, Any], where: str) -> list[str]:
    required = {name for name in shape if not name.endswith("?")}
    known = {name.removesuffix("?"): inner for name, inner in shape.items()}
    found = [f"{where}: no {name}" for name in sorted(required - set(value))]
    for name, item in value.items():
        if name in known:
            found += differences(known[name], item, f"{where}.{name}")
        else:
            found.append(f"{where}: {name} is not in the recorded shape")
    return found


def _has_type(shape: str, value: Any) -> bool:
    kind, *others = shape.split(" ")
    if value is None:
        return "null" in others
    match kind.partition(":")[0]:
        case "string":
            choices = [one for one in others if one != "null"]
            return isinstance(value, str) and (not choices or value in choices[0].split("|"))
        case "integer" | "int64":
            return isinstance(value, int) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "object":
            return isinstance(value, dict)
        case "any":
            return True
    raise AssertionError(f"unknown shape {shape}")
