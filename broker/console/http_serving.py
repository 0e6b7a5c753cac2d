"""Serving an HTTP application behind the front of a console: connections, timeouts, headers, log lines.

This module imports aiohttp.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from broker.console.acceptor import ConsoleAcceptor

if TYPE_CHECKING:
    from broker.network.listener_tls import ListenerTls

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Server": "Ottla",
}
KEEPALIVE_S = 30.0
SHUTDOWN_S = 1.0
"""How long a console that stops waits until answers are sent."""

logger = logging.getLogger(__name__)


async def serve(
    application: web.Application, sockets: list[socket.socket], tls: ListenerTls | None, backlog: int
) -> Callable[[], Coroutine[Any, Any, None]]:
    """Serve an application on sockets that already listen. Return what stops serving."""
    runner = web.AppRunner(
        application,
        access_log=None,
        logger=logger,
        handle_signals=False,
        handler_cancellation=True,  # work for a client that is gone stops
        keepalive_timeout=KEEPALIVE_S,
        shutdown_timeout=SHUTDOWN_S,
    )
    await runner.setup()
    assert runner.server is not None
    acceptor = ConsoleAcceptor(runner.server)
    await acceptor.open(sockets, tls, backlog)

    async def stop() -> None:
        await acceptor.close()
        await runner.cleanup()

    return stop


async def add_security_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers of every answer: a signal handler (`on_response_prepare`)."""
    response.headers.update(SECURITY_HEADERS)


def _is_no_bad_request(record: logging.LogRecord) -> bool:
    """Filter out what aiohttp logs about malformed requests: it shows their headers, which may contain passwords."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


logger.addFilter(_is_no_bad_request)
