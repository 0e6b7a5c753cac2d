"""The console's sockets, and the delayed start of HTTP.

The address is bound at the start, so that an address in use is an error at once. Importing aiohttp takes some 200 ms
and 17 MB, which a broker without console users should not pay: until the first connection arrives, there is only a
listening socket. The connection waits in the system's backlog while a thread imports aiohttp, so that the broker still
serves its clients; then aiohttp takes over the sockets.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Collection, Coroutine
from typing import TYPE_CHECKING, Any

from broker.errors import BrokerStartError
from broker.services import Services
from broker.settings.console_checks import OPEN_TO_ALL
from client.wire.listening import listening_sockets
from protocol.host_port import HostPort

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.console.login import ConsoleLogin
    from broker.network.listener_tls import ListenerTls

BACKLOG = 128


class ConsoleServer:
    """Health, metrics and the console page of one broker on `ottla.console.listener`."""

    def __init__(self, services: Services, broker: Broker, address: HostPort, tls: ListenerTls | None = None) -> None:
        """tls: the console speaks TLS."""
        self.services = services
        self.broker = broker
        self.host, self._configured_port = address
        self.tls = tls
        self.login: ConsoleLogin | None = None
        """Who may send requests; None if nobody has to log in, or can."""
        config = services.config
        self.open_to_all: Collection[str] = config.ottla_console_open or ()
        """What needs no login: names of `Need`."""
        self.failure_delay_s = config.connection_failed_authentication_delay_ms / 1000
        if config.ottla_console_authentication:
            from broker.console.login import ConsoleLogin  # only consoles with logins need it

            self.login = ConsoleLogin(config, services.scram_credentials, services.now_ms)
        elif config.ottla_console_open is None:
            self.open_to_all = ("read",)  # on a loopback address: `bind` checks
        self.started_s = asyncio.get_running_loop().time()
        self._sockets: list[socket.socket] = []

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

    async def bind(self) -> None:
        """Bind the address and read the files of logins.

        Raises BrokerStartError or ConfigError with the setting, its value and the reason.
        """
        if self._sockets:
            return
        if self.login is not None:
            await self.login.start()
        try:
            self._sockets = await listening_sockets(self.host, self._configured_port, BACKLOG)
        except OSError as error:
            # An error of name resolution has a separate error number, and a text.
            is_system_error = error.errno is not None and error.errno in errno.errorcode
            reason = os.strerror(error.errno or 0) if is_system_error else error.strerror or str(error)
            raise BrokerStartError(
                f"ottla.console.listener={HostPort(self.host, self._configured_port)}: "
                f"must be a free address of this machine, or empty for no console ({reason})"
            ) from error
        config = self.services.config
        if not config.ottla_console_authentication and config.ottla_console_open is None and not self.is_loopback:
            self.close()
            raise BrokerStartError(f"ottla.console.listener={config.value('ottla.console.listener')}: {OPEN_TO_ALL}")

    def services_to_run(self) -> list[Coroutine[Any, Any, None]]:
        """Return the work to run while the broker serves."""
        return [self.run()] if self.login is None else [self.run(), *self.login.services()]

    async def run(self) -> None:
        """Serve until cancelled. Calls `bind` if it has not been called, and raises its errors."""
        await self.bind()
        try:
            await self._first_connection()
            stop = await self._start_http()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await stop()
        finally:
            self.close()

    def close(self) -> None:
        """Close the sockets."""
        for one in self._sockets:
            one.close()

    async def _first_connection(self) -> None:
        loop = asyncio.get_running_loop()
        arrived = loop.create_future()

        def wake() -> None:
            if not arrived.done():
                arrived.set_result(None)

        for one in self._sockets:
            loop.add_reader(one.fileno(), wake)
        try:
            await arrived
        finally:
            for one in self._sockets:
                loop.remove_reader(one.fileno())

    async def _start_http(self) -> Any:
        start = await asyncio.get_running_loop().run_in_executor(None, _import_application)
        return await start(self, self._sockets, self.tls, BACKLOG)


def _import_application() -> Callable[..., Any]:
    from broker.console.application import start  # aiohttp takes 0.1 s and 12 MB

    return start


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"
