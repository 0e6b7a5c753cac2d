"""What `ottla brokers` and `ottla cluster describe` know of each broker: address, partitions and log directories."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from client.admin.types import ClusterDescription, LogDirDescription
from client.errors import KafkaError, UnsupportedApiError
from client.wire.metadata import TopicMetadata
from ottla.command_line.clients import Admin
from ottla.command_line.output import human_bytes, print_table

COLUMNS = ("broker", "host", "port", "rack", "controller", "leaders", "replicas", "out of sync", "size")


async def log_dirs_by_broker(admin: Admin, brokers: Iterable[int]) -> dict[int, list[LogDirDescription]]:
    """Return the log directories of brokers; without brokers that are too old to tell or cannot be reached."""
    found = {}
    for broker_id in brokers:
        try:
            found[broker_id] = await admin.describe_log_dirs([broker_id])
        except UnsupportedApiError:
            continue
        except KafkaError as error:
            if not error.retriable:
                raise
    return found


def broker_documents(
    cluster: ClusterDescription,
    topics: Mapping[str, TopicMetadata],
    log_dirs: Mapping[int, Sequence[LogDirDescription]],
) -> list[dict[str, Any]]:
    """Return a document for each live broker, and for each broker that has replicas and is not alive."""
    alive = {broker.node_id: broker for broker in cluster.brokers}
    partitions = [partition for topic in topics.values() for partition in topic.partitions.values()]
    owners = {broker_id for partition in partitions for broker_id in partition.replicas}
    documents = []
    for broker_id in sorted(alive.keys() | owners):
        broker = alive.get(broker_id)
        mine = [partition for partition in partitions if broker_id in partition.replicas]
        documents.append(
            {
                "broker": broker_id,
                "host": None if broker is None else broker.host,
                "port": None if broker is None else broker.port,
                "rack": None if broker is None else broker.rack,
                "is_alive": broker is not None,
                "is_controller": broker_id == cluster.controller_id,
                "leaders": sum(partition.leader == broker_id for partition in mine),
                "replicas": len(mine),
                "out_of_sync_replicas": sum(broker_id not in partition.isr for partition in mine),
                "size_bytes": size_of(log_dirs[broker_id]) if broker_id in log_dirs else None,
            }
        )
    return documents


def size_of(log_dirs: Iterable[LogDirDescription]) -> int:
    """Return the size of all replicas in log directories, in bytes."""
    return sum(replica.size_bytes for log_dir in log_dirs for replica in log_dir.replicas)


def print_brokers(documents: Iterable[Mapping[str, Any]]) -> None:
    """Print the documents of brokers as a table."""
    rows = [
        (
            one["broker"],
            one["host"] if one["is_alive"] else "(not alive)",
            one["port"],
            one["rack"],
            "yes" if one["is_controller"] else "",
            one["leaders"],
            one["replicas"],
            one["out_of_sync_replicas"],
            None if one["size_bytes"] is None else human_bytes(one["size_bytes"]),
        )
        for one in documents
    ]
    print_table(COLUMNS, rows)
