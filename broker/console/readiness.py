"""Whether the broker is ready to serve clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.services import Services

if TYPE_CHECKING:
    from broker.broker import Broker


def reason_not_ready(services: Services, broker: Broker) -> str | None:
    """Return why the broker is not ready for clients; None if it is ready.

    A broker is ready if it is registered, and if the controller has sent it metadata with a controller and with this
    broker among the live brokers. A broker that is stopping is not ready.
    """
    snapshot = services.metadata.snapshot
    if broker.is_stopping:
        return "the broker is stopping"
    if services.broker_epoch < 0:
        return "the broker is not registered yet"
    if not snapshot.brokers:
        return "no controller has sent metadata yet"
    if services.broker_id not in snapshot.brokers:
        return f"the controller's metadata does not have broker {services.broker_id} as a live broker yet"
    if snapshot.controller_id < 0:
        return "no controller is known"
    return None
