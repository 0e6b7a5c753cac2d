"""The HTTP application: its paths, their answers, and the check of the Host header.

HTTP requests cannot change the broker: only GET and HEAD are allowed. Pages of other origins cannot read the answers
(no CORS headers). On a loopback address the Host header must name this machine, so that an attacker's host name that
resolves to 127.0.0.1 is refused (DNS rebinding). On other addresses the broker cannot know its own names.

This module imports aiohttp: only `ConsoleServer` may import it, when the first client connects.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
from collections.abc import Callable, Coroutine
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.typedefs import Handler

from broker.console.acceptor import ConsoleAcceptor
from broker.console.cluster import describe_cluster
from broker.console.readiness import reason_not_ready

if TYPE_CHECKING:
    from broker.console.exposition import Exposition
    from broker.console.server import ConsoleServer
    from broker.network.listener_tls import ListenerTls

STATIC = Path(__file__).parent / "static"
SCRIPTS = ("console.js", "dom.js", "format.js", "groups.js", "opening_table.js", "topics.js")
STATIC_FILES = {
    "/": ("index.html", "text/html"),
    "/console.css": ("console.css", "text/css"),
    **{f"/{name}": (name, "text/javascript") for name in SCRIPTS},
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Server": "Ottla",
}

KEEPALIVE_S = 30.0
SHUTDOWN_S = 1.0
"""How long a stopping broker waits until answers are sent."""


async def start(
    server: ConsoleServer, sockets: list[socket.socket], tls: ListenerTls | None, backlog: int
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Serve on sockets that already listen. Return what stops serving."""
    runner = web.AppRunner(
        Console(server).application(),
        access_log=None,
        handle_signals=False,
        keepalive_timeout=KEEPALIVE_S,
        shutdown_timeout=SHUTDOWN_S,
    )
    await runner.setup()
    assert runner.server is not None
    acceptor = ConsoleAcceptor(runner.server)
    await acceptor.open(sockets, tls, backlog)

    async def stop() -> None:
        acceptor.close()
        await runner.cleanup()

    return stop


class Console:
    """Answers requests to each path."""

    def __init__(self, server: ConsoleServer) -> None:
        self._server = server
        self._version = _version()
        self._exposition: Exposition | None = None

    def application(self) -> web.Application:
        """Return the application with all paths, the check of the Host header and the security headers."""
        application = web.Application(middlewares=[self._check_host])
        application.on_response_prepare.append(_add_security_headers)
        routes = application.router
        routes.add_get("/healthz", self._health)
        routes.add_get("/readyz", self._readiness)
        routes.add_get("/metrics", self._metrics)
        routes.add_get("/api/cluster", self._cluster)
        for path, (name, content_type) in STATIC_FILES.items():
            routes.add_get(path, _StaticFile(STATIC / name, content_type).answer)
        return application

    @web.middleware
    async def _check_host(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if self._server.is_loopback and not _names_this_machine(request.host, self._server.host):
            raise web.HTTPForbidden(text="This address answers only to the names of this machine.\n")
        return await handler(request)

    async def _health(self, request: web.Request) -> web.Response:
        return _text("alive\n")

    async def _readiness(self, request: web.Request) -> web.Response:
        reason = reason_not_ready(self._server.services, self._server.broker)
        return _text("ready\n") if reason is None else _text(f"not ready: {reason}\n", status=503)

    async def _metrics(self, request: web.Request) -> web.Response:
        exposition = self._exposition
        if exposition is None:
            exposition = self._exposition = await asyncio.get_running_loop().run_in_executor(
                None, _make_exposition, self._server, self._version
            )
        body, content_type = await exposition.render(request.headers.get("Accept", ""))
        response = web.Response(body=body, headers={"Content-Type": content_type, "Cache-Control": "no-store"})
        response.enable_compression()
        return response

    async def _cluster(self, request: web.Request) -> web.Response:
        server = self._server
        uptime_s = asyncio.get_running_loop().time() - server.started_s
        cluster = describe_cluster(server.services, server.broker, version=self._version, uptime_s=uptime_s)
        response = web.Response(
            body=json.dumps(cluster, separators=(",", ":")).encode(),
            content_type="application/json",
            headers={"Cache-Control": "no-store"},
        )
        response.enable_compression()
        return response


class _StaticFile:
    """A small file of the page, kept in memory; browsers revalidate it on each use."""

    def __init__(self, path: Path, content_type: str) -> None:
        self._body = path.read_bytes()
        self._content_type = content_type
        self._tag = f'"{hashlib.sha256(self._body).hexdigest()[:16]}"'

    async def answer(self, request: web.Request) -> web.Response:
        """Return the file, or 304 if the client's copy is current."""
        headers = {"ETag": self._tag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == self._tag:
            return web.Response(status=304, headers=headers)
        response = web.Response(body=self._body, content_type=self._content_type, charset="utf-8", headers=headers)
        response.enable_compression()
        return response


async def _add_security_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(SECURITY_HEADERS)


def _text(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, headers={"Cache-Control": "no-store"})


def _make_exposition(server: ConsoleServer, version: str) -> Exposition:
    from broker.console.exposition import Exposition  # prometheus_client takes 25 ms and 5 MB

    return Exposition(server.services, server.broker.acceptors, version)


def _names_this_machine(host_header: str, configured_host: str) -> bool:
    """Whether a Host header is an IP address, `localhost`, a name under it, or the configured name."""
    host = host_header.lower()
    if host.startswith("["):
        return True
    host = host.partition(":")[0].removesuffix(".")
    if host == "localhost" or host.endswith(".localhost") or host == configured_host.lower():
        return True
    try:
        socket.inet_pton(socket.AF_INET, host)
    except (OSError, UnicodeEncodeError):
        return False
    return True


def _version() -> str:
    try:
        return installed_version("ottla")
    except PackageNotFoundError:
        return "unknown"
