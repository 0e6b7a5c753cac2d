"""The HTTP application: the REST APIs, their description, the pages, and health.

It checks neither Host nor logins nor the origin of requests: who mounts it does, and gives the rights of each sender.

The first page of a broker that nobody has looked at waits for few imports: while the browser loads the document and its
scripts, a thread imports what its two requests need. All other operations, with the models of pydantic, are imported by
the first request to one of them, or a moment after those of the first page were answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from aiohttp import web
from aiohttp.typedefs import Handler

from client.errors import KafkaError
from console.late import Late, LateResource
from console.pages import add_pages
from console.rest.bodies import MAX_BODY
from console.rights import ClusterDecides

if TYPE_CHECKING:
    from console.clients import Clients
    from console.rest.answering import RightsOf
    from console.rest.description import Description
    from console.rest.operation import ApiOperation
    from console.services import ConsoleServices

READY_TIMEOUT_S: Final = 5.0
"""How long the cluster has to answer for `/readyz`."""
ALL_AFTER_S: Final = 1.0
"""When everything is imported after the first page got an answer: it has been drawn then."""
_V3: Final = "/v3"
_V1: Final = "/api/v1"
_DESCRIPTION: Final = "/api/openapi.json"
_FIRST: Final = (f"{_V1}/session", f"{_V1}/overview")
"""What the first page asks for."""
_CLUSTER_DECIDES: Final = ClusterDecides()


def rest_application(
    operations: Iterable[ApiOperation], services: ConsoleServices, rights_of: RightsOf = lambda _: _CLUSTER_DECIDES
) -> web.Application:
    """Return the application of the operations of one table, to be mounted at its root (`add_subapp`).

    rights_of: the rights of the sender of a request.
    """
    from console.rest.answering import answer_errors, answerer  # with the client's errors: not for health and files

    application = web.Application(middlewares=[answer_errors], client_max_size=MAX_BODY)
    for operation in operations:
        answer = answerer(operation, services, rights_of)
        application.router.add_route(operation.method, operation.path, answer)
    return application


def add_console(
    application: web.Application, services: Late[ConsoleServices], rights_of: RightsOf = lambda _: _CLUSTER_DECIDES
) -> None:
    """Add the REST APIs, their description and the pages to an application. rights_of: as above."""
    application.middlewares.append(_let_others_run)
    apis = _Apis(services, rights_of)
    for path in _FIRST:
        application.router.register_resource(LateResource(path, apis.first))
    for path in (_V3, _V1, _DESCRIPTION):
        application.router.register_resource(LateResource(path, apis.all))
    application.on_shutdown.append(apis.end_streams)
    application.on_cleanup.append(apis.close)
    add_pages(application, apis.first.begin)


def console_application(services: ConsoleServices, rights_of: RightsOf = lambda _: _CLUSTER_DECIDES) -> web.Application:
    """Return the application of `ottla console`. rights_of: as above."""
    application = web.Application(client_max_size=MAX_BODY)
    health = _Health(services.clients)
    application.router.add_get("/healthz", health.health)
    application.router.add_get("/readyz", health.readiness)

    async def given() -> ConsoleServices:
        return services

    add_console(application, Late(given), rights_of)
    return application


@web.middleware
async def _let_others_run(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Do nothing: without a middleware here, aiohttp would leave out those of the applications that are made late."""
    return await handler(request)


class _Apis:
    """The operations: those of the first page, and all."""

    def __init__(self, services: Late[ConsoleServices], rights_of: RightsOf) -> None:
        self._services = services
        self._rights_of = rights_of
        self._timer: asyncio.TimerHandle | None = None
        self.first = Late(self._make_first)
        self.all = Late(self._make_all)

    async def _make_first(self) -> web.Application:
        services = await self._services.get()
        operations = await asyncio.to_thread(_import_first)
        application, operations_of_v1 = web.Application(), rest_application(operations, services, self._rights_of)
        operations_of_v1.on_response_prepare.append(self._answers_first)
        application.add_subapp(_V1, operations_of_v1)
        application.freeze()
        return application

    async def _make_all(self) -> web.Application:
        services = await self._services.get()
        tables, description = await asyncio.to_thread(_import_all)
        application = web.Application()
        for root, operations in tables.items():
            application.add_subapp(root, rest_application(operations, services, self._rights_of))
        application.router.add_get(_DESCRIPTION, description.answer)
        application.freeze()
        return application

    async def _answers_first(self, request: web.Request, response: web.StreamResponse) -> None:
        """Import everything a moment after the last answer: a signal handler (`on_response_prepare`)."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(ALL_AFTER_S, self.all.begin)

    async def end_streams(self, _: web.Application) -> None:
        """End all streams of events: a handler for the shutdown of the application."""
        if self._services.made is not None:
            await self._services.made.streams.end()

    async def close(self, _: web.Application) -> None:
        """End what runs although nobody asks: a handler for the end of the application."""
        if self._timer is not None:
            self._timer.cancel()
        self.first.cancel()
        self.all.cancel()
        if self._services.made is not None:
            await self._services.made.stop_watching()


def _import_first() -> list[ApiOperation]:
    from console.v1 import overview, session

    return [*session.OPERATIONS, *overview.OPERATIONS]


def _import_all() -> tuple[dict[str, Iterable[ApiOperation]], Description]:
    from console.rest.description import Description
    from console.v1 import table as v1
    from console.v3 import table as v3

    tables: dict[str, Iterable[ApiOperation]] = {_V3: v3.OPERATIONS, _V1: v1.OPERATIONS}
    return tables, Description(tables)


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
