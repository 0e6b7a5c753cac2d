"""The HTTP application: its paths and their answers.

Health, metrics and the data of this broker are answered here; the APIs and pages of `console/` are mounted, with
clients of the cluster. Pages of other origins cannot read the answers (no CORS headers). `guard` checks what every
request must pass.

This module imports aiohttp: only `ConsoleServer` may import it, when the first client connects.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Coroutine
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import TYPE_CHECKING, Any

from aiohttp import web

from broker.console.cluster import describe_cluster
from broker.console.guard import Guard, request_rights
from broker.console.http_serving import add_security_headers, serve
from broker.console.readiness import reason_not_ready
from broker.settings.console_checks import OFF
from console.application import add_console
from console.late import Late
from console.rest.bodies import MAX_BODY

if TYPE_CHECKING:
    from broker.console.exposition import Exposition
    from broker.console.server import ConsoleServer
    from broker.network.listener_tls import ListenerTls
    from console.services import ConsoleServices


async def start(
    server: ConsoleServer, sockets: list[socket.socket], tls: ListenerTls | None, backlog: int
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Serve on sockets that already listen. Return what stops serving."""
    console = Console(server)
    stop_serving = await serve(console.application(), sockets, tls, backlog)

    async def stop() -> None:
        await stop_serving()
        await console.close()

    return stop


class Console:
    """Answers requests to each path."""

    def __init__(self, server: ConsoleServer) -> None:
        self._server = server
        self._version = _version()
        self._exposition: Exposition | None = None
        self._guard = Guard(server)
        self._services = Late(self._make_services)

    def application(self) -> web.Application:
        """Return the application with all paths, the guard and the security headers."""
        application = web.Application(middlewares=[self._guard.check], client_max_size=MAX_BODY)
        application.on_response_prepare.append(add_security_headers)
        routes = application.router
        routes.add_get("/healthz", self._health)
        routes.add_get("/readyz", self._readiness)
        routes.add_get("/metrics", self._metrics)
        if self._server.config.ottla_console_mode == OFF:
            return application
        routes.add_get("/api/cluster", self._cluster)
        add_console(application, self._services, lambda _: request_rights.get())
        return application

    async def _make_services(self) -> ConsoleServices:
        return (await asyncio.to_thread(_import_services))(self._server)

    async def close(self) -> None:
        """Close the clients. Nothing waits for requests that they have sent: the broker is stopping."""
        self._services.cancel()
        if self._services.made is not None:
            await self._services.made.clients.abort()

    async def _health(self, request: web.Request) -> web.Response:
        return _text("alive\n")

    async def _readiness(self, request: web.Request) -> web.Response:
        reason = reason_not_ready(self._server.services, self._server.broker)
        if reason is None:
            return _text("ready\n")
        return _text(f"not ready: {reason}\n" if self._guard.reads_are_open else "not ready\n", status=503)

    async def _metrics(self, request: web.Request) -> web.Response:
        exposition = self._exposition
        if exposition is None:
            exposition = self._exposition = await asyncio.get_running_loop().run_in_executor(
                None, _make_exposition, self._server, self._version
            )
        body, content_type = await exposition.render(request.headers.get("Accept", ""), request_rights.get())
        response = web.Response(body=body, headers={"Content-Type": content_type, "Cache-Control": "no-store"})
        response.enable_compression()
        return response

    async def _cluster(self, request: web.Request) -> web.Response:
        server = self._server
        uptime_s = asyncio.get_running_loop().time() - server.started_s
        rights = request_rights.get()
        return _json(describe_cluster(server.services, server.broker, rights, version=self._version, uptime_s=uptime_s))


def _text(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, headers={"Cache-Control": "no-store"})


def _json(found: dict[str, Any]) -> web.Response:
    response = web.Response(
        body=json.dumps(found, separators=(",", ":")).encode(),
        content_type="application/json",
        headers={"Cache-Control": "no-store"},
    )
    response.enable_compression()
    return response


def _make_exposition(server: ConsoleServer, version: str) -> Exposition:
    from broker.console.exposition import Exposition  # prometheus_client takes 25 ms and 5 MB

    return Exposition(server.services, server.broker.acceptors, version)


def _import_services() -> Callable[[ConsoleServer], ConsoleServices]:
    from broker.console.mounted import services_of  # the client takes 50 ms

    return services_of


def _version() -> str:
    try:
        return installed_version("ottla")
    except PackageNotFoundError:
        return "unknown"
