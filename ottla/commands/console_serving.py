"""The console of `ottla console`: the application of `console/` behind the same front as the console of a broker.

The front has the settings of a broker that has no listener of Kafka's protocol, and no authorizer: the cluster decides,
by the user that the clients log in with. SCRAM users are known only to brokers, so they cannot log in here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, Final

from aiohttp import web

from broker.console.front import BACKLOG, ConsoleFront
from broker.console.guard import Guard, request_rights
from broker.console.http_serving import add_security_headers
from broker.console.http_serving import serve as serve_http
from broker.console.schemas import schema_cache
from broker.errors import BrokerStartError
from broker.network.listener import Listener
from broker.network.listener_tls import ListenerTls
from broker.settings.config import BrokerConfig
from broker.settings.console_checks import OFF
from console.application import console_application
from console.clients import API_TIMEOUT_MS, REQUEST_TIMEOUT_MS, Clients
from console.services import ConsoleServices
from ottla.command_line.clients import Admin, Producer
from ottla.command_line.failure import CommandError
from ottla.command_line.session import on_stop_signals, say
from storage.setting import ConfigError

_LISTENER: Final = "ottla.console.listener"
_CLIENT_ID: Final = "ottla-console"


async def serve(listen: str, settings: dict[str, str], bootstrap_server: str) -> None:
    """Serve until a signal arrives. Raises CommandError."""
    stop = asyncio.Event()
    on_stop_signals(stop.set)
    try:
        front = _front(listen, settings)
        await front.bind()
    except (ConfigError, BrokerStartError) as error:
        raise CommandError(str(error).replace(_LISTENER, "--listen", 1)) from None
    async with AsyncExitStack() as stack:
        stack.callback(front.close)
        clients = await stack.enter_async_context(_clients(bootstrap_server))
        stack.push_async_callback(await serve_http(_application(front, clients), front.sockets, front.tls, BACKLOG))
        services = [asyncio.ensure_future(one) for one in _services(front)]
        for one in services:
            stack.callback(one.cancel)
        for warning in front.config.warnings:
            say(f"warning: {warning}")
        _say_ready(front, bootstrap_server)
        await stop.wait()


def _front(listen: str, settings: dict[str, str]) -> ConsoleFront:
    """Return the front. Raises ConfigError, BrokerStartError, CommandError."""
    config = BrokerConfig.load(overrides={_LISTENER: listen} | settings)
    address = config.ottla_console_listener
    if address is None:
        raise CommandError(f"--listen {listen!r}: must be HOST:PORT")
    if config.ottla_console_mode == OFF:
        raise CommandError("ottla.console.mode=off: there would be nothing to serve")
    if "scram" in config.ottla_console_authentication:
        raise CommandError("ottla.console.authentication: scram works only in a broker, which knows the SCRAM users")
    tls = None
    if config.console_has_tls:
        tls = ListenerTls(Listener("console", *address, security_protocol="SSL"), config.of_console())
    return ConsoleFront(config, address, tls, None, lambda: time.time_ns() // 1_000_000)


def _services(front: ConsoleFront) -> list[Coroutine[Any, Any, None]]:
    return [*front.login_services(), *([] if front.tls is None else [front.tls.watch_files()])]


def _clients(bootstrap_server: str) -> Clients:
    def admin() -> Admin:
        return Admin(
            bootstrap_servers=bootstrap_server,
            client_id=_CLIENT_ID,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            default_api_timeout_ms=API_TIMEOUT_MS,
        )

    def producer() -> Producer:
        return Producer(bootstrap_servers=bootstrap_server, client_id=_CLIENT_ID, allow_auto_create_topics=False)

    return Clients(admin, producer)


def _application(front: ConsoleFront, clients: Clients) -> web.Application:
    services = ConsoleServices(clients, schemas=schema_cache(front.config))
    application = console_application(services, lambda _: request_rights.get())
    application.middlewares.append(Guard(front).check)
    application.on_response_prepare.append(add_security_headers)
    return application


def _say_ready(front: ConsoleFront, bootstrap_server: str) -> None:
    lines = [
        "",
        "The console is ready.",
        f"  url         {front.url}",
        f"  cluster     {bootstrap_server}",
        "",
        "Try, in another terminal:",
        f"  curl {front.url}v3/clusters",
        "",
    ]
    print("\n".join(lines), flush=True)
