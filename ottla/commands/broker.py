"""`ottla broker` as a Typer command: its help. `ottla.cli` runs the broker without Typer."""

from pathlib import Path
from typing import Annotated

import typer

from ottla.command_line.broker_arguments import number_of_processes, run_broker
from ottla.command_line.broker_short_options import long_forms
from ottla.command_line.completion import complete_broker_settings


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command(
        epilog=(
            "Examples:  ottla broker --port 9192 --data-dir /tmp/ottla;"
            "  ottla broker server.properties --set num.partitions=3"
        )
    )
    def broker(
        properties: Annotated[
            Path | None,
            typer.Argument(help="A server.properties in Apache Kafka's format.", metavar="FILE"),
        ] = None,
        settings: Annotated[
            list[str] | None,
            typer.Option(
                "--set",
                "-s",
                metavar="NAME=VALUE",
                help="A setting; overrides the file. Repeatable.",
                autocompletion=complete_broker_settings,
            ),
        ] = None,
        port: Annotated[
            str | None,
            typer.Option("--port", metavar="PORT", help="The port of the listener, if nothing else sets `listeners`."),
        ] = None,
        data_dir: Annotated[
            str | None,
            typer.Option("--data-dir", metavar="DIR", help="The log directory, if nothing else sets `log.dirs`."),
        ] = None,
        log_level: Annotated[
            str | None,
            typer.Option("--log-level", metavar="LEVEL", help="FATAL, ERROR, WARN, INFO (default), DEBUG or TRACE."),
        ] = None,
        processes: Annotated[
            str | None,
            typer.Option(
                "--processes",
                metavar="N",
                help="Run N brokers on this machine, to use more cores: each has its own id, ports and directories.",
            ),
        ] = None,
    ) -> None:
        """Run a broker in the foreground; Ctrl-C or SIGTERM stops it cleanly.

        Without a file the broker listens on 127.0.0.1:9092; with a file, settings that it does not contain have
        Kafka's defaults.

        With --processes, each process has the id and the ports after those of the process before, and a folder of its
        own, process-0, process-1, …, in each log directory. A process that ends is restarted. Without
        `zookeeper.connect`, the processes share an `ottla registry`.
        """
        given = settings or []
        short = {"--port": port, "--data-dir": data_dir, "--log-level": log_level}
        long = long_forms({option: value for option, value in short.items() if value is not None}, properties, given)
        raise typer.Exit(
            run_broker(properties, given + long, None if processes is None else number_of_processes(processes))
        )
