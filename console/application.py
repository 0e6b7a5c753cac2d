"""The HTTP application: the REST API, health, and what a browser sees at the root.

It checks neither Host nor logins nor the origin of requests: who mounts it does, and gives the rights of each sender.
"""

from __future__ import annotations

import asyncio
import json
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import Final

from aiohttp import web

from client.errors import KafkaError
from console.clients import Clients
from console.rights import ClusterDecides
from console.v3.answering import JSON, MAX_BODY, RightsOf, answer_errors, answerer
from console.v3.openapi import openapi_document
from console.v3.place import ROOT
from console.v3.table import OPERATIONS

READY_TIMEOUT_S: Final = 5.0
"""How long the cluster has to answer for `/readyz`."""
_CLUSTER_DECIDES: Final = ClusterDecides()


def rest_application(clients: Clients, rights_of: RightsOf = lambda _: _CLUSTER_DECIDES) -> web.Application:
    """Return the application of `/v3`, to be mounted there (`add_subapp`).

    rights_of: the rights of the sender of a request.
    """
    application = web.Application(middlewares=[answer_errors], client_max_size=MAX_BODY)
    for operation in OPERATIONS:
        answer = answerer(operation, clients, rights_of)
        application.router.add_route(operation.method, operation.path, answer)
    return application


def console_application(clients: Clients, rights_of: RightsOf = lambda _: _CLUSTER_DECIDES) -> web.Application:
    """Return the application of `ottla console`. rights_of: as above."""
    application = web.Application(client_max_size=MAX_BODY)
    pages = _Pages(clients)
    routes = application.router
    routes.add_get("/", pages.root)
    routes.add_get("/healthz", pages.health)
    routes.add_get("/readyz", pages.readiness)
    routes.add_get("/api/openapi.json", pages.openapi)
    application.add_subapp(ROOT, rest_application(clients, rights_of))
    return application


class _Pages:
    """What is not the REST API."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._openapi: bytes | None = None

    async def root(self, request: web.Request) -> web.Response:
        return _text(
            "Ottla's console, without its pages so far.\n\n"
            f"{ROOT}/clusters       the REST API\n"
            "/api/openapi.json  its description\n"
            "/healthz           whether the console is alive\n"
            "/readyz            whether it reaches the cluster\n"
        )

    async def health(self, request: web.Request) -> web.Response:
        return _text("alive\n")

    async def openapi(self, request: web.Request) -> web.Response:
        """Describe the REST API."""
        if self._openapi is None:
            self._openapi = json.dumps(openapi_document(OPERATIONS, _version())).encode()
        return web.Response(body=self._openapi, content_type=JSON, headers={"Cache-Control": "no-cache"})

    async def readiness(self, request: web.Request) -> web.Response:
        """Answer 200 if a broker of the cluster answers, otherwise 503."""
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                await (await self._clients.admin()).describe_cluster()
        except (KafkaError, TimeoutError) as error:
            return _text(f"not ready: {error or 'no broker answers in time'}\n", status=503)
        return _text("ready\n")


def _text(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, headers={"Cache-Control": "no-store"})


def _version() -> str:
    try:
        return installed_version("ottla")
    except PackageNotFoundError:
        return "unknown"
