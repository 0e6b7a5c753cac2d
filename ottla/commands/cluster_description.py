"""`ottla cluster describe` and `ottla cluster id`: a running cluster, of Kafka or of Ottla."""

import typer

from ottla.command_line.failure import CommandError
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer
from ottla.command_line.output import print_json, print_table
from ottla.command_line.running import run

_NAMES = (
    *("cluster_id", "controller", "topics", "partitions", "replicas"),
    *("under_replicated_partitions", "under_min_isr_partitions", "unavailable_partitions"),
)


def register(cluster: typer.Typer) -> None:
    """Add the commands."""
    cluster.command(epilog="Example:  ottla cluster describe --json")(describe)
    cluster.command("id", epilog="Example:  ottla cluster id")(print_id)


def describe(as_json: AsJson = False, bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER) -> None:
    """Show a cluster: its id, controller and brokers, and how many partitions are in a bad state."""
    # The client takes 80 ms of the start of `ottla cluster`, which does without it.
    from ottla.commands.broker_facts import print_brokers
    from ottla.commands.cluster_facts import cluster_document

    document = run(cluster_document(bootstrap_server))
    if as_json:
        print_json(document)
        return
    print_table(("", ""), [(name.replace("_", " "), _shown(document[name])) for name in _NAMES])
    print()
    print_brokers(document["brokers"])


def _shown(value: object) -> str | None:
    return None if value is None else str(value)  # as text, so that numbers are left-aligned like the id


def print_id(bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER) -> None:
    """Print the id of a cluster."""
    from ottla.commands.cluster_facts import cluster_id  # see `describe`

    found = run(cluster_id(bootstrap_server))
    if found is None:
        raise CommandError("the broker is too old to report the id of its cluster")
    print(found)
