"""What `ottla cluster describe` shows of a running cluster, of Kafka or of Ottla."""

from collections.abc import Mapping
from typing import Any

from client.errors import UnsupportedApiError
from client.wire.metadata import TopicMetadata
from ottla.command_line.clients import Admin
from ottla.commands.broker_facts import broker_documents, log_dirs_by_broker
from ottla.commands.topics.selection import PartitionFilter, partitions_in_state

_STATES = {
    "under_replicated_partitions": PartitionFilter(True, False, False, False),
    "under_min_isr_partitions": PartitionFilter(False, False, False, True),
    "unavailable_partitions": PartitionFilter(False, True, False, False),
}


async def cluster_document(bootstrap_server: str) -> dict[str, Any]:
    """Return the document that `describe --json` prints."""
    async with Admin(bootstrap_servers=bootstrap_server) as admin:
        cluster = await admin.describe_cluster()
        topics = await admin.describe_topics()
        log_dirs = await log_dirs_by_broker(admin, [broker.node_id for broker in cluster.brokers])
        in_state = {name: await _count(admin, topics, state) for name, state in _STATES.items()}
    partitions = [partition for topic in topics.values() for partition in topic.partitions.values()]
    return {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller_id if cluster.controller_id >= 0 else None,
        "topics": len(topics),
        "partitions": len(partitions),
        "replicas": sum(len(partition.replicas) for partition in partitions),
        **in_state,
        "brokers": broker_documents(cluster, topics, log_dirs),
    }


async def cluster_id(bootstrap_server: str) -> str | None:
    """Return the id of the cluster; None if the broker does not report it."""
    async with Admin(bootstrap_servers=bootstrap_server) as admin:
        return (await admin.describe_cluster()).cluster_id


async def _count(admin: Admin, topics: Mapping[str, TopicMetadata], state: PartitionFilter) -> int | None:
    """Return the number of partitions in a state; None if the cluster does not serve a request that this needs."""
    try:
        found = await partitions_in_state(admin, topics, state)
    except UnsupportedApiError:
        return None
    return sum(map(len, found.values()))
