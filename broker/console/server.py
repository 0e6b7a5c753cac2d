"""The console's sockets, and the delayed start of HTTP.

The address is bound at the start, so that an address in use is an error at once. Importing aiohttp takes some 200 ms
and 17 MB, which a broker without console users should not pay: until the first connection arrives, there is only a
listening socket. The connection waits in the system's backlog while a thread imports aiohttp, so that the broker still
serves its clients; then aiohttp takes over the sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from broker.console.front import BACKLOG, ConsoleFront
from broker.services import Services
from protocol.host_port import HostPort

if TYPE_CHECKING:
    from broker.authorization.access import Access
    from broker.broker import Broker
    from broker.network.listener_tls import ListenerTls


class ConsoleServer(ConsoleFront):
    """Health, metrics and the console page of one broker on `ottla.console.listener`."""

    def __init__(self, services: Services, broker: Broker, address: HostPort, tls: ListenerTls | None = None) -> None:
        """tls: the console speaks TLS."""
        super().__init__(services.config, address, tls, services.scram_credentials, services.now_ms)
        self.services = services
        self.broker = broker
        self.started_s = asyncio.get_running_loop().time()

    @property
    def access(self) -> Access | None:
        """See `ConsoleFront`."""
        return self.services.access

    def services_to_run(self) -> list[Coroutine[Any, Any, None]]:
        """Return the work to run while the broker serves."""
        return [self.run(), *self.login_services()]

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
