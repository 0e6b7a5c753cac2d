"""Limit the bandwidth of moves: set and remove settings of brokers and topics like Kafka's tool (KIP-73).

Each broker that takes part gets a rate. Each topic gets its throttled replicas: the sources of moves on the leader's
side, the targets on the follower's side. Other replication is not throttled. Moves between the log directories of a
broker have a separate rate at that broker (KIP-113).
"""

from collections.abc import Iterable, Mapping, Sequence

from client.admin.types import ConfigChange, ConfigOperation, ResourceType
from client.topic_partition import TopicPartition
from ottla.command_line.clients import Admin

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")

Replicas = Mapping[TopicPartition, Sequence[int]]


async def set_throttle(admin: Admin, current: Replicas, targets: Replicas, bytes_per_s: int) -> None:
    """Limit moves from the current replicas to the targets to this rate. Replaces a topic's throttled replicas."""
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    brokers: set[int] = set()
    for partition, target in targets.items():
        sources = current[partition]
        arriving = [broker for broker in target if broker not in sources]
        if arriving:
            leaders.setdefault(partition.topic, []).extend(_entries(partition, sources))
            followers.setdefault(partition.topic, []).extend(_entries(partition, arriving))
            brokers.update(sources, arriving)
    for broker in sorted(brokers):
        await admin.incremental_alter_configs(
            ResourceType.BROKER, str(broker), [ConfigChange(name, str(bytes_per_s)) for name in RATES]
        )
    for topic in leaders:
        values = (",".join(leaders[topic]), ",".join(followers[topic]))
        await admin.incremental_alter_configs(
            ResourceType.TOPIC,
            topic,
            [ConfigChange(name, value) for name, value in zip(REPLICAS, values, strict=True)],
        )


async def set_log_dir_throttle(admin: Admin, brokers: Iterable[int], bytes_per_s: int) -> None:
    """Limit moves between the log directories of these brokers to this rate."""
    for broker in sorted(set(brokers)):
        await admin.incremental_alter_configs(
            ResourceType.BROKER, str(broker), [ConfigChange(LOG_DIR_RATE, str(bytes_per_s))]
        )


async def clear_throttle(admin: Admin, topics: Iterable[str], brokers: Iterable[int]) -> None:
    """Delete the throttle's settings from these topics and brokers."""
    resources: list[tuple[ResourceType, str, tuple[str, ...]]] = []
    resources += [(ResourceType.BROKER, str(broker), (*RATES, LOG_DIR_RATE)) for broker in sorted(brokers)]
    resources += [(ResourceType.TOPIC, topic, REPLICAS) for topic in sorted(topics)]
    for kind, name, settings in resources:
        await admin.incremental_alter_configs(
            kind, name, [ConfigChange(setting, None, ConfigOperation.DELETE) for setting in settings]
        )


def _entries(partition: TopicPartition, brokers: Sequence[int]) -> list[str]:
    return [f"{partition.partition}:{broker}" for broker in brokers]
