"""`ottla cluster describe` and `ottla cluster id`: a running cluster, of Kafka or of Ottla."""

from collections.abc import Mapping
from typing import Any

import typer

from client.errors import UnsupportedApiError
from client.wire.metadata import TopicMetadata
from ottla.command_line.clients import Admin
from ottla.command_line.failure import CommandError
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer
from ottla.command_line.output import print_json, print_table
from ottla.command_line.session import run
from ottla.commands.broker_facts import broker_documents, log_dirs_by_broker, print_brokers
from ottla.commands.topics.selection import PartitionFilter, partitions_in_state

_COUNTS = ("topics", "partitions", "replicas")
_STATES = {
    "under_replicated_partitions": PartitionFilter(True, False, False, False),
    "under_min_isr_partitions": PartitionFilter(False, False, False, True),
    "unavailable_partitions": PartitionFilter(False, True, False, False),
}


def register(cluster: typer.Typer) -> None:
    """Add the commands."""
    cluster.command(epilog="Example:  ottla cluster describe --json")(describe)
    cluster.command("id", epilog="Example:  ottla cluster id")(print_id)


def describe(as_json: AsJson = False, bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER) -> None:
    """Show a cluster: its id, controller and brokers, and how many partitions are in a bad state."""

    async def main() -> dict[str, Any]:
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

    document = run(main())
    if as_json:
        print_json(document)
        return
    names = ("cluster_id", "controller", *_COUNTS, *_STATES)
    print_table(("", ""), [(name.replace("_", " "), _shown(document[name])) for name in names])
    print()
    print_brokers(document["brokers"])


async def _count(admin: Admin, topics: Mapping[str, TopicMetadata], state: PartitionFilter) -> int | None:
    """Return the number of partitions in a state; None if the cluster does not serve a request that this needs."""
    try:
        found = await partitions_in_state(admin, topics, state)
    except UnsupportedApiError:
        return None
    return sum(map(len, found.values()))


def _shown(value: object) -> str | None:
    return None if value is None else str(value)  # as text, so that numbers are left-aligned like the id


def print_id(bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER) -> None:
    """Print the id of a cluster."""

    async def main() -> str | None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            return (await admin.describe_cluster()).cluster_id

    found = run(main())
    if found is None:
        raise CommandError("the broker is too old to report the id of its cluster")
    print(found)
