"""The question before a command removes records: only a person at a terminal is asked."""

import sys
from typing import Annotated

import typer

from ottla.command_line.failure import CommandError

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation at a terminal.")]


def confirm(question: str, *, yes: bool) -> None:
    """Ask "question [y/N]" if standard input is a terminal and `yes` is not given.

    Raises CommandError if the answer is not yes. In scripts, the command has been confirmed by being there.
    """
    if yes or not sys.stdin.isatty():
        return
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was changed: not confirmed")
