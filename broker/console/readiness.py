"""Whether the broker is ready to serve clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker.services import Services

if TYPE_CHECKING:
    from broker.broker import Broker


def reason_not_ready(services: Services, broker: Broker) -> str | None:
    """Return why the broker is not ready for clients; None if it is ready.

    A broker is ready if it is registered, and if the controller has sent it metadata with a controller and with this
    broker among the live brokers. A broker is not ready while it is stopping, or while it cannot write to its registry
    or to one of its log directories.
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
    return _not_writable(services)


def _not_writable(services: Services) -> str | None:
    reasons = []
    for directory in services.logs.dirs.all:
        if directory.failure is not None:
            reasons.append(f"log directory {directory.path} is offline: {directory.failure}")
        elif directory.is_full:
            reasons.append(f"log directory {directory.path} is full")
    if services.registry_access.full is not None:
        reasons.append(f"registry {services.registry_access.full}")
    return "; ".join(reasons) or None
