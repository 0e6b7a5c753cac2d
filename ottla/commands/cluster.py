"""`ottla cluster`: a registry and several brokers on this machine, in one terminal, until Ctrl-C.

Its subcommands, which show a running cluster, are in `cluster_description`.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from broker.first_commands import TRY, command_name, first_commands
from ottla.cluster import local_registry
from ottla.cluster.foreground import run_in_foreground
from ottla.cluster.local_cluster import LocalCluster
from ottla.command_line.completion import complete_broker_settings
from ottla.command_line.failure import CommandError
from ottla.command_line.options import parse_pairs
from ottla.command_line.running import run
from ottla.commands import cluster_description

cluster = typer.Typer()


def register(app: typer.Typer) -> None:
    """Add the commands."""
    cluster_description.register(cluster)
    app.add_typer(cluster, name="cluster")


@cluster.callback(
    invoke_without_command=True,
    epilog="Example:  ottla cluster --brokers 3 --data-dir ./cluster --set num.partitions=6",
)
def run_cluster(
    context: typer.Context,
    brokers: Annotated[int, typer.Option("--brokers", min=1, max=20, help="How many brokers.")] = 3,
    zookeeper: Annotated[
        str | None,
        typer.Option(
            "--zookeeper",
            "-z",
            metavar="HOST:PORT[/CHROOT]",
            help="Use a ZooKeeper that runs already. Without --data-dir, in a new chroot that is deleted at the end.",
        ),
    ] = None,
    zookeeper_nodes: Annotated[
        int | None,
        typer.Option(
            "--zookeeper-nodes",
            min=1,
            max=7,
            help="Run real ZooKeeper servers, 1 or 3, instead of a registry of Ottla. Needs 'ottla[zookeeper]'.",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Port of the first broker; 0: any free ports.")
    ] = 9092,
    zookeeper_port: Annotated[
        int,
        typer.Option(
            "--zookeeper-port", min=0, max=65535, help="Port of the registry, or the first ZooKeeper; 0: any."
        ),
    ] = 2181,
    console_port: Annotated[
        int, typer.Option("--console-port", min=0, max=65535, help="Port of the first broker's console; 0: any.")
    ] = 8080,
    console: Annotated[bool, typer.Option("--console/--no-console", help="Whether brokers have a console.")] = True,
    control_port: Annotated[
        int | None,
        typer.Option(
            "--control-port",
            min=0,
            max=65535,
            help="Serve a control API for `ottla faults` on this port; 0: any. Default: none.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", "-d", metavar="DIR", help="Where to keep the data. Default: temporary."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="NAME=VALUE",
            help="A setting of every broker. Repeatable.",
            autocompletion=complete_broker_settings,
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the brokers' warnings and errors.")] = False,
) -> None:
    """Run a cluster on 127.0.0.1: a registry and brokers, each in its own process; Ctrl-C stops all in order.

    If a broker ends unexpectedly, the command reports it and the others continue; the exit code is then 1. A
    second Ctrl-C kills the brokers.

    With --control-port, `ottla faults` injects faults: it stops, kills, pauses and restarts brokers, and lets their
    connections, requests and disks fail. Everybody on this machine can do that then.

    The registry is `ottla registry`. With --zookeeper-nodes it is ZooKeeper: pip install 'ottla[zookeeper]' installs
    one and a Java. With --zookeeper it is a ZooKeeper that runs already.

    `describe` and `id` show a cluster that runs; the options of this command do not apply to them.
    """
    _check_options(context)
    if context.invoked_subcommand is not None:
        return
    made = LocalCluster(
        data_dir,
        brokers=brokers,
        zookeeper=zookeeper,
        zookeeper_nodes=zookeeper_nodes,
        port=port,
        zookeeper_port=zookeeper_port,
        console_port=console_port if console else None,
        settings=parse_pairs(settings, "--set"),
        control_port=control_port,
        quiet=quiet,
    )
    run(_serve(made, is_kept=data_dir is not None))


_OF_SUBCOMMANDS = {"bootstrap_server": "--bootstrap-server", "profile": "--profile"}


def _check_options(context: typer.Context) -> None:
    """Raise CommandError for options of `ottla cluster` before a subcommand, and of subcommands without one."""
    if context.invoked_subcommand is None:
        for level in (context, context.find_root()):
            for name, option in _OF_SUBCOMMANDS.items():
                if _was_typed(level, name):
                    raise CommandError(
                        f"`ottla cluster` starts a cluster and has no option {option};"
                        " `ottla cluster describe` shows a cluster that runs"
                    )
        return
    for parameter in context.command.params:
        if parameter.name not in _OF_SUBCOMMANDS and _was_typed(context, parameter.name or ""):
            raise CommandError(
                f"{parameter.opts[0]} is an option of `ottla cluster` alone, which starts a cluster; it cannot be used"
                f" with `ottla cluster {context.invoked_subcommand}`"
            )


def _was_typed(context: Any, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


async def _serve(cluster: LocalCluster, *, is_kept: bool) -> None:
    if not await run_in_foreground(cluster, lambda: _say_ready(cluster, is_kept=is_kept)):
        raise CommandError("no process of the cluster is left")
    if cluster.lost:
        raise CommandError(f"ended unexpectedly or killed: {', '.join(cluster.lost)}")


def _say_ready(cluster: LocalCluster, *, is_kept: bool) -> None:
    count = len(cluster.brokers)
    lines = ["", f"The cluster is ready: {count} broker{'' if count == 1 else 's'}."]
    lines += [f"  {broker.name:<11} {broker.summary}" for broker in cluster.brokers]
    lines.append(f"  {'bootstrap':<11} {cluster.bootstrap_servers}")
    pids = ", ".join(str(server.pid) for server in cluster.registry.servers)
    purpose = "  one node, for development and tests" if cluster.registry_kind == local_registry.KIND else ""
    lines.append(f"  {cluster.registry_kind:<11} {cluster.registry.connect}{purpose}{f'  pid {pids}' if pids else ''}")
    lines.append(f"  {'data':<11} {cluster.data_dir}{'' if is_kept else ' (temporary)'}")
    if cluster.control_url:
        lines.append(f"  {'control':<11} {cluster.control_url}")
    lines += ["", TRY]
    if cluster.control_url:
        lines.append(f"  export OTTLA_CONTROL_URL={cluster.control_url}    # for ottla faults")
    lines += [f"  {command}" for command in first_commands(cluster.bootstrap_servers.partition(",")[0])]
    ottla = command_name()
    lines.append(f"  {ottla} zk tree --zookeeper {cluster.registry.connect}")
    last = cluster.brokers[-1]
    again = f"{ottla} broker {cluster.properties(last.name)}"
    lines.append(f"  kill -9 {last.pid}    # then start {last.name} again: {again}")
    lines.append("")
    print("\n".join(lines), flush=True)
