"""SASL on one listener: what it offers, and what becomes of a connection when its client is authenticated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from broker.authentication.audit import log_success
from broker.authentication.login import Established, Login
from broker.authentication.session import Session
from broker.authentication.settings import SaslSettings
from broker.network.connection import Connection
from broker.requests.dispatcher import Dispatcher
from security.sasl.server import NewSaslServer, SaslServer


class ListenerAuthentication:
    """The authentication of all connections of one listener."""

    def __init__(
        self,
        settings: SaslSettings,
        mechanisms: Mapping[str, NewSaslServer],
        dispatcher: Dispatcher,
        *,
        failure_delay_s: float,
        now_ms: Callable[[], int],
        step_elsewhere: Callable[[SaslServer, bytes], asyncio.Future[bytes | None]],
    ) -> None:
        """mechanisms: starts an exchange, by the names of the mechanisms. now_ms: the clock of tokens.

        step_elsewhere: runs a step in another thread.
        """
        self.mechanisms = mechanisms
        self.offered = settings.offered
        self.dispatcher = dispatcher
        self.failure_delay_s = failure_delay_s
        self.step_elsewhere = step_elsewhere
        self._settings = settings
        self._now_ms = now_ms

    def begin(self, connection: Connection) -> None:
        """Expect a new connection to authenticate."""
        self.expect(Login(self), connection)

    def expect(self, login: Login, connection: Connection) -> None:
        """Serve nothing but a login, in small frames."""
        connection.handle_frame = login.handle_frame
        limit = self._settings.max_receive_bytes
        if 0 <= limit < connection.acceptor.max_request_bytes:
            connection.limit_frames(limit, "sasl.server.max.receive.size")

    def authenticated(self, connection: Connection, established: Established) -> int:
        """Serve all requests of a client that has proved its user. Return how long, in milliseconds; 0: no limit.

        A token that has ended counts as 0, too: the next request is refused.
        """
        proved = established.authenticated
        log_success(
            connection.host,
            connection.acceptor.name,
            established.mechanism,
            proved.principal,
            by_token=proved.is_token,
        )
        connection.principal = proved.principal
        connection.is_token_login = proved.is_token
        connection.takes_empty_frames = False
        connection.limit_frames(connection.acceptor.max_request_bytes)
        reauth_ms = self._settings.mechanisms[established.mechanism].max_reauth_ms
        lifetimes = [reauth_ms] if reauth_ms > 0 else []
        if proved.expires_ms is not None:
            lifetimes.append(max(0, proved.expires_ms - self._now_ms()))
        if not lifetimes:
            connection.handle_frame = self.dispatcher.handle_frame
            return 0
        lifetime_ms = min(lifetimes)
        connection.handle_frame = Session(
            self, established, connection.acceptor.now_s() + lifetime_ms / 1000
        ).handle_frame
        return lifetime_ms
