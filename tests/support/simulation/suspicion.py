"""Tracks brokers that have lost unsynced data, and the faults that must not happen meanwhile.

acks=all promises that a record is on every in-sync replica, not that it is on a disk: so data is lost at one in-sync
replica of a partition at a time, until it is back in the ISR. Between its loss and its leaving the ISR (the controller
has to notice that it was restarted) the registry still calls it in sync. Were the others to leave first, it would be
elected, and what it lost would be lost: as in Kafka, whose remedy (KIP-966) ZooKeeper mode does not have. Hence two
phases for each of its partitions:

- *relied on*: it is in the ISR from before. Nothing may happen to the others.
- *out*: it has left the ISR. Others may die, but lose nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from client.topic_partition import TopicPartition
from registry.znodes.topics import PartitionStateZnode

GetState = Callable[[str, int], PartitionStateZnode | None]
GetReplicas = Callable[[str, int], Sequence[int]]


class Suspicion:
    """Follows the partitions' states; `look` is to be called at each change of one."""

    def __init__(self, partitions: Sequence[TopicPartition], state: GetState, replicas: GetReplicas) -> None:
        self._partitions = partitions
        self._state = state
        self._replicas = replicas
        self._relied_on: dict[int, set[TopicPartition]] = {}
        self._out: dict[int, set[TopicPartition]] = {}

    def _in_sync(self, broker_id: int, partition: TopicPartition) -> bool:
        state = self._state(*partition)
        return state is not None and broker_id in state.isr

    def has_lost(self, broker_id: int) -> None:
        """Record that a broker has lost its unsynced data."""
        relied_on = {one for one in self._partitions if self._in_sync(broker_id, one)}
        self._relied_on[broker_id] = relied_on
        self._out[broker_id] = set(self._partitions) - relied_on
        self.look()

    def look(self) -> None:
        """Check for changed partition states."""
        for broker_id in list(self._relied_on):
            relied_on, out = self._relied_on[broker_id], self._out[broker_id]
            for partition in self._partitions:
                is_in = self._in_sync(broker_id, partition)
                if partition in relied_on and not is_in:
                    relied_on.discard(partition)
                    out.add(partition)
                elif partition in out and (is_in or broker_id not in self._replicas(*partition)):
                    out.discard(partition)
            if not relied_on and not out:
                del self._relied_on[broker_id], self._out[broker_id]

    def has_lost_some(self, broker_id: int) -> bool:
        """Whether a broker has lost data that it has not fetched again in all partitions."""
        return broker_id in self._relied_on

    def may_fail(self, broker_id: int) -> bool:
        """Whether a broker may die, stop or be disconnected while it keeps its data."""
        return not any(relied_on for other, relied_on in self._relied_on.items() if other != broker_id)

    def may_lose(self, broker_id: int) -> bool:
        """Whether it may lose data, given the brokers that already have."""
        return not any(other != broker_id for other in self._relied_on)
