"""Whether the broker is ready to serve clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.services import Services

if TYPE_CHECKING:
    from broker.broker import Broker


def reason_not_ready(services: Services, broker: Broker) -> str | None:
    """Why clients should not be sent here now; None when they may.

    Ready is: registered, told by a controller who it is, and found among the live brokers in the metadata that it
    sent. A broker that is stopping is not ready.
    """
    snapshot = services.metadata.snapshot
    if broker.is_stopping:
        return "the broker is stopping"
    if services.broker_epoch < 0:
        return "the broker is not registered yet"
    if not snapshot.brokers:
        return "no controller has sent metadata yet"
    if services.broker_id not in snapshot.brokers:
        return f"the controller does not count broker {services.broker_id} among the live ones yet"
    if snapshot.controller_id < 0:
        return "no controller is known"
    return None
