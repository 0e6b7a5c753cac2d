"""What every request to the console must pass: Host header, origin, login, rights, the limits, and the mode.

Whatever is not in NEEDS needs the right to read, also a path that does not exist: nothing is open by mistake. A login
that is not valid is answered after connection.failed.authentication.delay.ms, as on a listener.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from contextvars import ContextVar
from enum import Enum
from typing import TYPE_CHECKING, Final

from aiohttp import web
from aiohttp.typedefs import Handler

from broker.authentication.audit import TLS, log_failure, log_success
from broker.console.acceptor import ConsoleConnection
from broker.console.login import LoginFailedError
from broker.console.passwords import TooManyChecksError
from broker.console.request_limits import RETRY_AFTER_S as REFUSED_RETRY_AFTER_S
from broker.console.request_limits import RequestLimits, TooManyRequestsError
from broker.console.rights import Rights, Visitor
from broker.console.same_origin import JSON, SAFE_METHODS, is_of_this_site
from security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from broker.console.front import ConsoleFront

LISTENER: Final = "console"
"""The name of the console in the audit logs."""
NOT_AUTHORIZED: Final = 40301
"""The error code of the REST API for what a user may not do."""
RETRY_AFTER_S: Final = 5
"""When a client may try again whose password could not be checked: some checks take this long."""


class Need(Enum):
    """What a path needs."""

    NOTHING = "nothing"
    METRICS = "metrics"
    READ = "read"


_PORT: Final = re.compile(r"(:[0-9]*)?")

NEEDS: Final = {"/healthz": Need.NOTHING, "/readyz": Need.NOTHING, "/metrics": Need.METRICS}
"""Paths that do not need the right to read everything."""

request_rights: Final[ContextVar[Rights]] = ContextVar("request_rights")
"""The rights of the sender of the request that the current task answers, if its path needs any."""


class Guard:
    """Lets requests through or answers them itself."""

    def __init__(self, server: ConsoleFront, limits: RequestLimits | None = None) -> None:
        """limits: of requests at the same time; None: the usual ones."""
        self._server = server
        config = server.config
        self._hosts = frozenset(name.lower() for name in config.ottla_console_hosts)
        self._open = server.open_to_all
        self._limits = limits or RequestLimits()

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Call the handler if the request may be answered. Raises HTTPException."""
        connection = None if request.transport is None else request.transport.get_protocol()
        if not isinstance(connection, ConsoleConnection):
            raise ConnectionResetError  # the client has disconnected
        connection.request_arrived()
        need = NEEDS.get(_route(request), Need.READ)
        is_safe = request.method in SAFE_METHODS
        if not (is_safe and need is Need.NOTHING) or "Host" in request.headers:  # health checks of HTTP/1.0 have none
            self._check_host(request)
        if not is_safe:
            _check_origin(request)
        if need is Need.NOTHING:
            return await handler(request)
        try:
            with self._limits.counted(connection.host):
                rights = await self._rights(request, need, connection)
                if not is_safe and (reason := self._server.why_read_only(has_login=rights.user is not None)):
                    raise refused(request, web.HTTPForbidden, f"The console is read-only: {reason}.", NOT_AUTHORIZED)
                request_rights.set(rights)
                return await handler(request)
        except TooManyRequestsError as error:
            raise _too_many(request, error) from None

    @property
    def reads_are_open(self) -> bool:
        """Whether everybody may read."""
        return Need.READ.value in self._open

    # -- host and origin ----------------------------------------------------------------------------------------------

    def _check_host(self, request: web.Request) -> None:
        if "Host" not in request.headers:  # request.host would ask DNS for the name of this machine, in some versions
            raise refused(request, web.HTTPBadRequest, "The request has no Host header.")
        server = self._server
        name = _host_name(request.host)
        if self._hosts:
            if name not in self._hosts and not _is_address(name):
                raise refused(
                    request, web.HTTPForbidden, "The Host header has a name that is not in ottla.console.hosts."
                )
        elif server.is_loopback and not _names_this_machine(name, server.host):
            raise refused(request, web.HTTPForbidden, "This address answers only to the names of this machine.")

    # -- who, and what they may ---------------------------------------------------------------------------------------

    async def _rights(self, request: web.Request, need: Need, connection: ConsoleConnection) -> Rights:
        server = self._server
        principal = await self._user(request, connection)
        is_open = need.value in self._open or self.reads_are_open
        if principal is None and not is_open:
            raise self._login_needed(request)
        rights = Rights(
            server.access,
            Visitor(principal or ANONYMOUS, connection.host),
            _route(request),
            reads_all=is_open,
            acts=server.why_read_only(has_login=principal is not None) is None,
        )
        if not rights.read_cluster:
            raise refused(request, web.HTTPForbidden, f"{principal} may not describe the cluster.")
        return rights

    async def _user(self, request: web.Request, connection: ConsoleConnection) -> Principal | None:
        """Return the user of a request; None if it has no login. Raises HTTPException if the login is not valid."""
        login = self._server.login
        if login is None:
            return None
        headers = request.headers.getall("Authorization", [])
        if headers:
            try:
                if len(headers) > 1:
                    raise LoginFailedError("", "there are several Authorization headers")
                found = await login.user(headers[0], connection)
            except LoginFailedError as error:
                log_failure(connection.host, LISTENER, error.mechanism, str(error))
                await asyncio.sleep(self._server.failure_delay_s)
                raise self._login_needed(request, has_failed=True) from None
            except TooManyChecksError:
                answer = refused(request, web.HTTPServiceUnavailable, "Too many logins wait for their check.")
                answer.headers["Retry-After"] = str(RETRY_AFTER_S)
                raise answer from None
            log_success(connection.host, LISTENER, found.mechanism, found.principal, by_token=False)
            return found.principal
        if login.takes_certificates and connection.principal != ANONYMOUS:
            log_success(connection.host, LISTENER, TLS, connection.principal, by_token=False)
            return connection.principal
        return None

    def _login_needed(self, request: web.Request, *, has_failed: bool = False) -> web.HTTPException:
        login = self._server.login
        challenges = [] if login is None else login.challenges
        if not challenges:  # HTTP has none for certificates
            way = "no login is set up (ottla.console.authentication)" if login is None else "show a client certificate"
            return refused(request, web.HTTPForbidden, f"Only users that have logged in may read this: {way}.")
        text = "The login is not valid." if has_failed else "Only users that have logged in may read this."
        error = refused(request, web.HTTPUnauthorized, text)
        for challenge in challenges:
            is_bearer = challenge.startswith("Bearer")
            error.headers.add("WWW-Authenticate", challenge + ', error="invalid_token"' * (has_failed and is_bearer))
        return error


def _route(request: web.Request) -> str:
    """Return the path of the route that answers a request, as it was added; "none" if no route does."""
    resource = request.match_info.route.resource
    return "none" if resource is None else resource.canonical


def refused(
    request: web.Request, kind: type[web.HTTPException], text: str, code: int | None = None
) -> web.HTTPException:
    """Return the answer to a request that is refused: an object for the API, otherwise a line of text.

    code: the error code in the object; by default the status.
    """
    headers = {"Cache-Control": "no-store"}
    if request.path.startswith(("/v3/", "/api/")):
        found: dict[str, object] = {"error_code": code or kind.status_code, "message": text}
        return kind(text=json.dumps(found), content_type=JSON, headers=headers)
    return kind(text=f"{text}\n", headers=headers)


def _too_many(request: web.Request, error: TooManyRequestsError) -> web.HTTPException:
    if error.of_address:
        answer = refused(request, web.HTTPTooManyRequests, "Too many requests of this address at the same time.")
    else:
        answer = refused(request, web.HTTPServiceUnavailable, "The console answers too many requests.")
    answer.headers["Retry-After"] = str(REFUSED_RETRY_AFTER_S)
    return answer


def _check_origin(request: web.Request) -> None:
    if not is_of_this_site(request.headers, request.host):
        raise refused(request, web.HTTPForbidden, "The request comes from a page of another site.")
    # A page of another site can send a form, which is a POST. It cannot send other methods without being allowed to.
    if request.content_type != JSON and (request.method == "POST" or request.body_exists):
        raise refused(request, web.HTTPUnsupportedMediaType, f"The Content-Type of this request must be {JSON}.")


def _host_name(host_header: str) -> str:
    """Return the name or address in a Host header, in lower case and without the port and brackets.

    "" if something else than a port follows, as in `[::1].example.com` or `localhost:1@example.com`: that is no host.
    """
    host = host_header.lower()
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
    else:
        name, colon, port = host.partition(":")
        name, rest = name.removesuffix("."), colon + port
    return name if _PORT.fullmatch(rest) else ""


def _names_this_machine(name: str, configured_host: str) -> bool:
    """Return whether a name of a Host header is an address, `localhost`, a name under it, or the configured name."""
    return name == "localhost" or name.endswith(".localhost") or name == configured_host.lower() or _is_address(name)


def _is_address(name: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, name)
        except (OSError, UnicodeEncodeError):
            continue
        return True
    return False
