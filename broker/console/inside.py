"""What this broker tells its own console, and no request of Kafka's protocol answers."""

from __future__ import annotations

from broker.services import Services


class BrokerInside:
    """Implements `console.inside.Inside` for one broker."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @property
    def broker_id(self) -> int:
        """See `Inside`."""
        return self._services.broker_id
