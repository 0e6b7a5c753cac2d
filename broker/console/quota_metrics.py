"""Readings of quotas: what the clients of each user and client id use, and how long they are throttled.

A client may choose any client id, so at most MAX_ENTITIES are read: those that were used first.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.console.readings import Readings
from broker.quotas.client_quotas import AnyShare
from broker.services import Services

MAX_ENTITIES = 200


def by_entity(services: Services, read: Callable[[AnyShare], float]) -> Readings:
    """Read the quotas that are in use: (quota, user, client id), of which one of the last two may be empty."""
    shares = services.quotas.shares(MAX_ENTITIES)
    return [((share.quota_name, share.user, share.client_id), read(share)) for share in shares]


def rates(services: Services) -> Readings:
    """Read the current rates: bytes, percent of a processor, or partitions, a second."""
    now_s = services.quotas.now_s()
    return by_entity(services, lambda share: share.measure.rate(now_s))
