"""A partition, of a coordinator's log or another, in which nothing is committed until the test says so."""

from __future__ import annotations

from broker.broker import Broker
from broker.coordinator.coordinator_log import CoordinatorLog
from replication.partition import Partition

FOLLOWER = 99


def hold(broker: Broker, log: CoordinatorLog, key: str) -> Partition:
    """Hold the key's partition."""
    return hold_partition(broker, log.topic, log.partition_for(key))


def hold_partition(broker: Broker, topic: str, number: int) -> Partition:
    """A follower joins the in-sync replicas of the partition and never fetches: nothing is committed there."""
    partition = broker.services.replicas.partitions[(topic, number)]
    partition.sync.isr = (*partition.sync.isr, FOLLOWER)
    partition.sync.end_offsets[FOLLOWER] = partition.log.log_end_offset
    return partition


def commit_before(broker: Broker, partition: Partition, offset: int) -> None:
    """The follower fetches the records before `offset`: they are committed."""
    partition.sync.end_offsets[FOLLOWER] = offset
    partition.maybe_advance_high_watermark()
    broker.services.replicas.check((partition.topic, partition.partition))


def let_go(broker: Broker, partition: Partition) -> None:
    """The follower fetches everything, and is no replica any more."""
    commit_before(broker, partition, partition.log.log_end_offset)
    partition.sync.isr = tuple(replica for replica in partition.sync.isr if replica != FOLLOWER)
    del partition.sync.end_offsets[FOLLOWER]


def resign(broker: Broker, partition: Partition) -> None:
    """The partition gets another leader."""
    partition.sync = None
    broker.services.replicas.role_changed((partition.topic, partition.partition))
