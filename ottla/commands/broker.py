"""`ottla broker` as a Typer command: its help. `ottla.cli` runs the broker without Typer."""

from pathlib import Path
from typing import Annotated

import typer

from ottla.command_line.broker_arguments import run_broker


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command(epilog="Example:  ottla broker --set listeners=PLAINTEXT://127.0.0.1:9192 --set log.dirs=/tmp/ottla")
    def broker(
        properties: Annotated[
            Path | None,
            typer.Argument(help="A server.properties in Apache Kafka's format.", metavar="[FILE]"),
        ] = None,
        settings: Annotated[
            list[str] | None,
            typer.Option("--set", "-s", metavar="NAME=VALUE", help="A setting; overrides the file. Repeatable."),
        ] = None,
    ) -> None:
        """Run a broker in the foreground; Ctrl-C or SIGTERM stops it cleanly.

        Without a file the broker listens on 127.0.0.1:9092; with a file, settings that it does not contain have
        Kafka's defaults.
        """
        raise typer.Exit(run_broker(properties, settings or []))
