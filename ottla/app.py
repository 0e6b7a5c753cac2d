"""The Typer application with all subcommands; `ottla.cli` runs `ottla broker` without it."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.main import get_command

from ottla import __version__
from ottla.commands import (
    adopt_logs,
    broker,
    cluster,
    configs,
    consume,
    dump_log,
    elect_leaders,
    groups,
    perf,
    produce,
    reassign,
    topics,
    transactions,
    verify_log,
    zk,
    zookeeper,
)

app = typer.Typer(
    name="ottla",
    help="A Kafka broker in asyncio Python, and the tools that go with it.",
    epilog=(
        "Start with `ottla broker`; then, in another terminal,"
        " `echo hello | ottla produce greetings` and `ottla consume greetings`."
    ),
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ottla {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    pass


broker.register(app)
topics.register(app)
produce.register(app)
consume.register(app)
configs.register(app)
groups.register(app)
transactions.register(app)
reassign.register(app)
elect_leaders.register(app)
dump_log.register(app)
verify_log.register(app)
adopt_logs.register(app)
perf.register(app)
zk.register(app)
zookeeper.register(app)
cluster.register(app)


def run_app(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code. Errors are raised; Typer's have `format_message`."""
    command = get_command(app)
    _escape_markup(command)
    result = command(list(arguments), prog_name="ottla", standalone_mode=False)
    return result if isinstance(result, int) else 0


# What Rich takes for a tag: see `rich.markup.RE_TAGS`. Importing `rich.markup.escape` would slow down every command.
_TAG = re.compile(r"\[(?=[a-z#/@][^[]*])")


def _escape_markup(command: Any) -> None:
    """Escape square brackets in the help of a command and its subcommands, so that Rich prints them."""
    for owner in (command, *command.params):
        for name in ("help", "short_help", "epilog"):
            if text := getattr(owner, name, None):
                setattr(owner, name, _TAG.sub(r"\[", text))
    for subcommand in getattr(command, "commands", {}).values():
        _escape_markup(subcommand)
