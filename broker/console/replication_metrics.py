"""Readings of the metrics of replication in `metrics`."""

from __future__ import annotations

from collections.abc import Callable

from broker.console.readings import Readings
from broker.services import Services
from replication.isr_changes import IsrChanges
from replication.partition import Partition


def count_partitions(services: Services, holds: Callable[[Partition], bool]) -> int:
    """Return for how many of the broker's partitions `holds` is true."""
    return sum(1 for partition in services.replicas.partitions.values() if holds(partition))


def isr_changes(services: Services, read: Callable[[IsrChanges], int]) -> int:
    """Return a number of ISR changes."""
    changes = services.replicas.isr_changes
    return 0 if changes is None else read(changes)


def lag(services: Services) -> Readings:
    """Return the lag of each followed partition whose leader has answered at least once."""
    fetchers = services.replicas.fetchers
    if fetchers is None:
        return []
    return [
        ((topic, str(partition)), state.lag)
        for state in fetchers.states()
        if state.lag is not None
        for topic, partition in [state.key]
    ]


def failed_partitions(services: Services) -> int:
    """Return the number of partitions that are followed but not fetched."""
    fetchers = services.replicas.fetchers
    return 0 if fetchers is None else len(fetchers.failed)
