"""Readings of the metrics in `metrics` about the groups and transactions that this broker has loaded."""

from __future__ import annotations

from collections.abc import Callable

from broker.console.readings import Readings
from broker.coordinator.consumer.group import AnyGroup, ConsumerGroup
from broker.services import Services


def groups_by_state(services: Services) -> Readings:
    """Return the number of groups in each state."""
    return [((state,), count) for state, count in services.coordination.groups.count_by_state().items()]


def by_group(services: Services, read: Callable[[AnyGroup], float]) -> Readings:
    """Return a number for each group."""
    return [((group.group_id,), read(group)) for group in services.coordination.groups.all_groups()]


def generation(group: AnyGroup) -> int:
    """Return the group's epoch (KIP-848) or generation, which each rebalance increments."""
    return group.epoch if isinstance(group, ConsumerGroup) else group.generation


def committed_offsets(services: Services) -> Readings:
    """Return the committed offsets of every group and partition."""
    return [
        ((group.group_id, topic, str(partition)), committed.offset)
        for group in services.coordination.groups.all_groups()
        for (topic, partition), committed in group.offsets.committed.items()
    ]


def transactions_by_state(services: Services) -> Readings:
    """Return the number of transactional ids in each state."""
    return [((state,), count) for state, count in services.coordination.transactions.count_by_state().items()]
