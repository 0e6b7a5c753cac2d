"""`ottla help`: the help of a command, as with `--help` after it."""

from typing import Annotated

import typer

from ottla.app import run_app
from ottla.command_line.completion import complete_commands


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command("help", epilog="Examples:  ottla help;  ottla help topics create")
    def show_help(
        names: Annotated[
            list[str] | None,
            typer.Argument(
                help="A command. Default: all commands.", metavar="COMMAND", autocompletion=complete_commands
            ),
        ] = None,
    ) -> None:
        """Show the help of a command: `ottla help topics create` is `ottla topics create --help`."""
        raise typer.Exit(run_app([*(names or ()), "--help"]))
