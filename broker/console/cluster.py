"""The cluster as this broker sees it, as JSON: the answer of `/api/cluster`.

Leaders, replicas and ISR come from the controller's metadata. Offsets and sizes come from the logs of this broker, so
they are null for partitions without a replica on this broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker.cluster.metadata_cache import Snapshot, TopicMetadata
from broker.console.groups import describe_groups
from broker.console.readiness import reason_not_ready
from broker.console.rights import Rights
from broker.services import Services
from broker.topic_names import INTERNAL_TOPICS
from protocol.messages.update_metadata import UpdateMetadataPartitionState
from protocol.uuid import uuid_to_string
from replication.replica_manager import ReplicaManager

if TYPE_CHECKING:
    from broker.broker import Broker


def describe_cluster(
    services: Services, broker: Broker, rights: Rights, *, version: str, uptime_s: float
) -> dict[str, Any]:
    """Return the document for a reader with these rights.

    Sizes are in bytes; counters start at 0 at the broker's start.
    """
    snapshot = services.metadata.snapshot
    return {
        "cluster_id": services.cluster_id,
        "broker_id": services.broker_id,
        "version": version,
        "uptime_s": round(uptime_s, 3),
        "not_ready": reason_not_ready(services, broker),
        "bootstrap_servers": broker.bootstrap_servers,
        "commands": broker.first_commands,
        "controller": {
            "id": snapshot.controller_id,
            "epoch": services.replicas.controller_requests.controller_epoch,
            "is_this_broker": services.is_controller(),
        },
        "connections": sum(len(acceptor.connections) for acceptor in broker.acceptors.values()),
        "counters": _counters(services),
        "log_dirs": _log_dirs(services),
        "brokers": _brokers(snapshot),
        "topics": [
            _topic(services, snapshot, topic)
            for name, topic in sorted(snapshot.topics.items())
            if rights.see_topic(name)
        ],
        "groups": describe_groups(services, rights),
    }


def _counters(services: Services) -> dict[str, int]:
    partitions = services.replicas.partitions.values()
    return {
        "requests": sum(api.requests for api in services.metrics.apis.values()),
        "produced_records": sum(one.produced_records for one in partitions),
        "produced_bytes": sum(one.produced_bytes for one in partitions),
        "fetched_bytes": sum(one.fetched_bytes for one in partitions),
    }


def _log_dirs(services: Services) -> list[dict[str, Any]]:
    return [
        {
            "path": str(directory.path),
            "is_full": directory.is_full,
            "failure": directory.failure,
        }
        for directory in services.logs.dirs.all
    ]


def _brokers(snapshot: Snapshot) -> list[dict[str, Any]]:
    return [
        {
            "id": broker.id,
            "rack": broker.rack,
            "listeners": [
                {"name": endpoint.listener, "host": endpoint.host, "port": endpoint.port}
                for endpoint in broker.endpoints
            ],
        }
        for _, broker in sorted(snapshot.brokers.items())
    ]


def _topic(services: Services, snapshot: Snapshot, topic: TopicMetadata) -> dict[str, Any]:
    partitions = services.replicas.partitions
    here = [partitions[key] for index in topic.partitions if (key := (topic.name, index)) in partitions]
    return {
        "name": topic.name,
        "id": uuid_to_string(topic.topic_id),
        "is_internal": topic.name in INTERNAL_TOPICS,
        "produced_records": sum(one.produced_records for one in here),
        "produced_bytes": sum(one.produced_bytes for one in here),
        "fetched_bytes": sum(one.fetched_bytes for one in here),
        "partitions": [
            _partition(services.replicas, snapshot, topic.name, state) for state in topic.partitions.values()
        ],
    }


def _partition(
    replicas: ReplicaManager, snapshot: Snapshot, topic: str, state: UpdateMetadataPartitionState
) -> dict[str, Any]:
    here = replicas.partitions.get((topic, state.partition_index))
    log = None if here is None else here.log
    return {
        "partition": state.partition_index,
        "leader": state.leader if state.leader in snapshot.brokers else None,
        "leader_epoch": state.leader_epoch,
        "replicas": list(state.replicas),
        "isr": list(state.isr),
        "log_start_offset": None if log is None else log.log_start_offset,
        "high_watermark": None if log is None else log.high_watermark,
        "log_end_offset": None if log is None else log.log_end_offset,
        "size_bytes": None if log is None else log.size_bytes,
    }
