"""The front of a console: its address, its TLS, its logins, and what is open without one.

A broker has one, and so has `ottla console`: the rules of `ottla.console.*` are the same.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any, Final

from broker.errors import BrokerStartError
from broker.network.listener import PLAINTEXT
from broker.settings.console_checks import CHANGED_BY_ALL, FULL, OPEN_TO_ALL, READ_ONLY
from client.wire.listening import listening_sockets
from protocol.host_port import HostPort

if TYPE_CHECKING:
    from broker.authentication.scram_credentials import ScramCredentials
    from broker.authorization.access import Access
    from broker.console.login import ConsoleLogin
    from broker.network.listener_tls import ListenerTls
    from broker.settings.config import BrokerConfig

logger = logging.getLogger(__name__)

BACKLOG = 128
_LISTENER: Final = "ottla.console.listener"


class ConsoleFront:
    """The sockets of a console, and who may send requests."""

    def __init__(
        self,
        config: BrokerConfig,
        address: HostPort,
        tls: ListenerTls | None,
        credentials: ScramCredentials | None,
        now_ms: Callable[[], int],
    ) -> None:
        """tls: the console speaks TLS. credentials: of SCRAM users; None if there are none.

        Raises ConfigError and BrokerStartError.
        """
        self.config = config
        self.host, self._configured_port = address
        self.tls = tls
        self.login: ConsoleLogin | None = None
        """Who may send requests; None if nobody has to log in, or can."""
        self.open_to_all: Collection[str] = config.ottla_console_open or ()
        """What needs no login: names of `Need`."""
        self.failure_delay_s = config.connection_failed_authentication_delay_ms / 1000
        if config.ottla_console_authentication:
            from broker.console.login import ConsoleLogin  # only consoles with logins need it

            self.login = ConsoleLogin(config, credentials, now_ms)
        elif config.ottla_console_open is None:
            self.open_to_all = ("read",)  # on a loopback address: `bind` checks
        self._sockets: list[socket.socket] = []

    @property
    def access(self) -> Access | None:
        """The authorizer that decides what users may do; None if every user may do everything."""
        return None

    @property
    def port(self) -> int:
        """The bound port, chosen by the system if 0 is configured; before `bind` the configured port."""
        return int(self._sockets[0].getsockname()[1]) if self._sockets else self._configured_port

    @property
    def url(self) -> str:
        """The URL of the page for a browser on this machine."""
        host = "localhost" if self.host in ("", "0.0.0.0", "::") else self.host
        return f"{'http' if self.tls is None else 'https'}://{HostPort(host, self.port)}/"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        return all(_is_loopback(one.getsockname()[0]) for one in self._sockets)

    def why_read_only(self, *, has_login: bool) -> str | None:
        """Return why a sender, with or without a login, may not change anything; None if the rights decide."""
        config = self.config
        if config.ottla_console_mode == READ_ONLY:
            return "ottla.console.mode is read-only"
        if has_login:
            return None
        if self.login is not None or not self.is_loopback:
            return "only users who have logged in may change something (ottla.console.authentication)"
        if not any(one.security_protocol == PLAINTEXT for one in config.listeners):
            return "the broker's listeners need a login, and the console has none (ottla.console.authentication)"
        return None

    @property
    def sockets(self) -> list[socket.socket]:
        """The listening sockets; none before `bind`."""
        return self._sockets

    async def bind(self) -> None:
        """Bind the address and read the files of logins. If the default address is in use, the system chooses the port.

        Raises BrokerStartError or ConfigError with the setting, its value and the reason.
        """
        if self._sockets:
            return
        if self.login is not None:
            await self.login.start()
        try:
            self._sockets = await self._listen()
        except OSError as error:
            # An error of name resolution has a separate error number, and a text.
            is_system_error = error.errno is not None and error.errno in errno.errorcode
            reason = os.strerror(error.errno or 0) if is_system_error else error.strerror or str(error)
            raise BrokerStartError(
                f"{_LISTENER}={HostPort(self.host, self._configured_port)}: must be a free address of this machine, "
                f"or empty for no console ({reason})"
            ) from error
        config = self.config
        if not config.ottla_console_authentication and not self.is_loopback:
            self._check_network()

    async def _listen(self) -> list[socket.socket]:
        try:
            return await listening_sockets(self.host, self._configured_port, BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or _LISTENER in self.config.static:
                raise
        # Settings that were written for Kafka name no console, and several brokers of a machine have such settings.
        sockets = await listening_sockets(self.host, 0, BACKLOG)
        taken, found = (HostPort(self.host, port) for port in (self._configured_port, sockets[0].getsockname()[1]))
        logger.warning("%s is in use, and %s is not set: the console listens on %s", taken, _LISTENER, found)
        return sockets

    def _check_network(self) -> None:
        """Check again what the settings were checked for: a name decides here, too. Raises BrokerStartError."""
        config = self.config
        if config.ottla_console_mode == FULL:
            self.close()
            raise BrokerStartError(f"ottla.console.mode={FULL}: {CHANGED_BY_ALL}")
        if config.ottla_console_open is None:
            self.close()
            raise BrokerStartError(f"{_LISTENER}={config.value(_LISTENER)}: {OPEN_TO_ALL}")

    def login_services(self) -> list[Coroutine[Any, Any, None]]:
        """Return the work of the logins, to run while the console serves."""
        return [] if self.login is None else self.login.services()

    def close(self) -> None:
        """Close the sockets."""
        for one in self._sockets:
            one.close()


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"
