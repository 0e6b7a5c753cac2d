"""The clients of a broker's console: opened by the first request that needs them, and closed with the broker.

They connect to the broker's own inter-broker listener, with its security, as other brokers do. With an authorizer, the
user of brokers is a super user, so that only the rights of who uses the console decide (`rights`).

This module imports the client: only `application` imports it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from client.admin.admin import Admin
from console.clients import API_TIMEOUT_MS, REQUEST_TIMEOUT_MS, Clients

if TYPE_CHECKING:
    from broker.broker import Broker
    from client.producer.producer import Producer

CLIENT_ID: Final = "ottla-console"
"""The client id of the console's requests: quotas can name it."""


def clients_of(broker: Broker) -> Clients:
    """Return the clients of the console of a broker. Its listeners must be bound when they are opened."""

    def admin() -> Admin:
        return Admin(
            **broker.options_of_clients(),
            client_id=CLIENT_ID,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            default_api_timeout_ms=API_TIMEOUT_MS,
        )

    def producer() -> Producer:
        from client.producer.producer import Producer  # takes 20 ms, and the first page does not need it

        return Producer(**broker.options_of_clients(), client_id=CLIENT_ID, allow_auto_create_topics=False)

    return Clients(admin, producer)
