"""The HTTP application: the REST APIs, their description, the pages, and health.

It checks neither Host nor logins nor the origin of requests: who mounts it does, and gives the rights of each sender.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed_version
from typing import Final

from aiohttp import web

from client.errors import KafkaError
from console.clients import Clients
from console.pages import add_pages
from console.rest.answering import JSON, RightsOf, answer_errors, answerer
from console.rest.bodies import MAX_BODY
from console.rest.openapi import openapi_document
from console.rest.operation import ApiOperation
from console.rest.place import ROOT
from console.rights import ClusterDecides
from console.services import ConsoleServices
from console.v1 import table as v1
from console.v3 import table as v3

READY_TIMEOUT_S: Final = 5.0
"""How long the cluster has to answer for `/readyz`."""
TABLES: Final = {ROOT: v3.OPERATIONS, v1.ROOT: v1.OPERATIONS}
"""The operations below each root."""
_CLUSTER_DECIDES: Final = ClusterDecides()


def rest_application(
    operations: Iterable[ApiOperation], services: ConsoleServices, rights_of: RightsOf = lambda _: _CLUSTER_DECIDES
) -> web.Application:
    """Return the application of the operations of one table, to be mounted at its root (`add_subapp`).

    rights_of: the rights of the sender of a request.
    """
    application = web.Application(middlewares=[answer_errors], client_max_size=MAX_BODY)
    for operation in operations:
        answer = answerer(operation, services, rights_of)
        application.router.add_route(operation.method, operation.path, answer)
    return application


def add_console(
    application: web.Application, services: ConsoleServices, rights_of: RightsOf = lambda _: _CLUSTER_DECIDES
) -> None:
    """Add the REST APIs, their description and the pages to an application. rights_of: as above."""
    for root, operations in TABLES.items():
        application.add_subapp(root, rest_application(operations, services, rights_of))
    application.router.add_get("/api/openapi.json", _Description().answer)
    application.on_shutdown.append(services.streams.end)
    application.on_cleanup.append(services.stop_watching)
    add_pages(application)


def console_application(services: ConsoleServices, rights_of: RightsOf = lambda _: _CLUSTER_DECIDES) -> web.Application:
    """Return the application of `ottla console`. rights_of: as above."""
    application = web.Application(client_max_size=MAX_BODY)
    health = _Health(services.clients)
    application.router.add_get("/healthz", health.health)
    application.router.add_get("/readyz", health.readiness)
    add_console(application, services, rights_of)
    return application


class _Description:
    """The OpenAPI document, made when it is first asked for."""

    def __init__(self) -> None:
        self._body: bytes | None = None

    async def answer(self, request: web.Request) -> web.Response:
        """Describe the REST APIs."""
        if self._body is None:
            self._body = json.dumps(openapi_document(TABLES, _version())).encode()
        response = web.Response(body=self._body, content_type=JSON, headers={"Cache-Control": "no-cache"})
        response.enable_compression()
        return response


class _Health:
    """Whether the console is alive, and reaches the cluster."""

    def __init__(self, clients: Clients) -> None:
        self._clients = clients

    async def health(self, request: web.Request) -> web.Response:
        return _text("alive\n")

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
