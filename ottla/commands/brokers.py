"""`ottla brokers`: the brokers of the cluster, with their partitions, log directories and settings."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from client.admin.types import ResourceType
from client.errors import UnsupportedApiError
from client.wire.metadata import TopicMetadata
from ottla.command_line.clients import Admin
from ottla.command_line.completion import complete_brokers
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer
from ottla.command_line.output import number_ranges, print_described, print_json, print_table
from ottla.command_line.session import live_brokers, run
from ottla.commands.broker_facts import broker_documents, log_dirs_by_broker, print_brokers
from ottla.commands.log_dirs import directory_document, print_directories

brokers = typer.Typer(help="Show brokers with their partitions, log directories and settings.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(brokers, name="brokers")


@brokers.command("list", epilog="Example:  ottla brokers list")
def list_brokers(as_json: AsJson = False, bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER) -> None:
    """List the brokers that are alive, and those that have replicas and are not alive."""

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            cluster = await admin.describe_cluster()
            topics = await admin.describe_topics()
            log_dirs = await log_dirs_by_broker(admin, [broker.node_id for broker in cluster.brokers])
        documents = broker_documents(cluster, topics, log_dirs)
        if as_json:
            print_json(documents)
        else:
            print_brokers(documents)

    run(main())


@brokers.command(epilog="Example:  ottla brokers describe 1")
def describe(
    ids: Annotated[
        list[int] | None,
        typer.Argument(help="Broker ids. Default: all.", metavar="ID", autocompletion=complete_brokers),
    ] = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Show brokers: address, log directories, settings that differ from the defaults, and partitions."""

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            wanted = [broker.node_id for broker in await live_brokers(admin, ids or (), "broker")]
            cluster = await admin.describe_cluster()
            topics = await admin.describe_topics()
            log_dirs = await log_dirs_by_broker(admin, wanted)
            documents = {one["broker"]: one for one in broker_documents(cluster, topics, log_dirs)}
            described = [
                {
                    **documents[broker_id],
                    "configs": await _configs(admin, broker_id),
                    "log_dirs": [directory_document(one) for one in log_dirs.get(broker_id, ())],
                    "topics": _partitions(topics, broker_id),
                }
                for broker_id in wanted
            ]
        print_described(described, _print_broker, as_json=as_json)

    run(main())


async def _configs(admin: Admin, broker_id: int) -> dict[str, str | None] | None:
    """Return the settings of a broker that are not defaults; None if it does not report settings."""
    try:
        entries = await admin.describe_configs(ResourceType.BROKER, str(broker_id))
    except UnsupportedApiError:
        return None
    return {entry.name: entry.value for entry in entries.values() if not entry.is_default}


def _partitions(topics: Mapping[str, TopicMetadata], broker_id: int) -> list[dict[str, Any]]:
    """Return the partitions that a broker leads and follows, by topic."""
    found = []
    for name, topic in topics.items():
        mine = {number: one for number, one in topic.partitions.items() if broker_id in one.replicas}
        if mine:
            leads = [number for number, one in mine.items() if one.leader == broker_id]
            follows = [number for number in mine if number not in leads]
            found.append({"topic": name, "leads": leads, "follows": follows})
    return found


def _print_broker(document: Mapping[str, Any]) -> None:
    facts = [f"rack {document['rack']}"] if document["rack"] is not None else []
    facts += ["controller"] if document["is_controller"] else []
    facts.append(f"leads {document['leaders']} of {document['replicas']} replicas")
    facts.append(f"{document['out_of_sync_replicas']} out of sync")
    print(f"broker {document['broker']}  {document['host']}:{document['port']}, {', '.join(facts)}")
    for name, value in (document["configs"] or {}).items():
        print(f"  {name}={'(hidden)' if value is None else value}")
    if document["log_dirs"]:
        print_directories(document["log_dirs"])
    if document["topics"]:
        rows = [
            (one["topic"], number_ranges(one["leads"]) or "-", number_ranges(one["follows"]) or "-")
            for one in document["topics"]
        ]
        print_table(("topic", "leads", "follows"), rows)
