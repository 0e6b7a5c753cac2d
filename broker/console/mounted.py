"""What the mounted application of `console/` gets from its broker: clients of the cluster, and the broker's inside.

This module imports the client: it is imported when the first page is asked for, not for health and metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.console.clients import clients_of
from broker.console.inside import BrokerInside
from broker.console.schemas import schema_cache
from console.services import ConsoleServices

if TYPE_CHECKING:
    from broker.console.server import ConsoleServer


def services_of(server: ConsoleServer) -> ConsoleServices:
    """Return what the operations of the console of a broker share."""
    inside = BrokerInside(server.services, server.broker.acceptors)
    return ConsoleServices(clients_of(server.broker), inside, schemas=schema_cache(server.config))
