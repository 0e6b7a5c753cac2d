"""`ottla completion`: the script with which a shell completes the command."""

import os
from enum import StrEnum
from pathlib import PurePath
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]  # imported there for its own use

from ottla.command_line.failure import CommandError
from ottla.command_line.shell_completion import VARIABLE


class Shell(StrEnum):
    """The shells for which there is a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command(epilog='Examples:  eval "$(ottla completion bash)";  ottla completion fish > ottla.fish')
    def completion(
        shell: Annotated[
            Shell | None, typer.Argument(help="The shell. Default: that of the environment variable SHELL.")
        ] = None,
    ) -> None:
        """Print the script that makes a shell complete this command; `--install-completion` installs it."""
        name = shell or _login_shell()
        typer.echo(get_completion_script(prog_name="ottla", complete_var=VARIABLE, shell=name.value))


def _login_shell() -> Shell:
    name = PurePath(os.environ.get("SHELL", "")).name
    if name not in list(Shell):
        known = ", ".join(Shell)
        raise CommandError(f"SHELL={os.environ.get('SHELL', '')} is none of {known}: name one, as in `completion bash`")
    return Shell(name)
