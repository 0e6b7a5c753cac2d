"""Tickets of Kerberos for GSSAPI: each login gets one for its broker, from a cache or from the KDC.

The library blocks while it asks a KDC, which can take half a minute if none answers. It has a thread of its own for
each client, so that it does not occupy those of the event loop's executor.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from client.errors import AuthenticationError, KafkaError
from client.wire.login_options import KerberosTickets
from security.sasl.client_exchange import ClientExchange
from security.sasl.gss_context import KerberosError
from security.sasl.gssapi_client import GssapiClient
from security.sasl.kerberos import initiate


class TicketUnavailableError(KafkaError):
    """No KDC can be reached, or it has no answer now; a later attempt may succeed."""

    retriable = True


class TicketSource:
    """The tickets of one client."""

    def __init__(self, options: KerberosTickets) -> None:
        self._options = options
        self._thread = ThreadPoolExecutor(1, "kerberos")

    async def exchange(self, host: str) -> ClientExchange:
        """Return a login at the broker with this host name. Raises AuthenticationError, TicketUnavailableError."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._begin, host)
        except KerberosError as error:
            refused = TicketUnavailableError if error.is_transient else AuthenticationError
            raise refused(f"no Kerberos ticket for {self._options.service}/{host}: {error}") from None

    def _begin(self, host: str) -> GssapiClient:
        return GssapiClient(initiate(self._options.login, self._options.service, host))
