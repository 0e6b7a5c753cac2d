"""The Typer application with all subcommands; `ottla.cli` runs `ottla broker` without it.

A subcommand's module is imported when the subcommand runs: together the modules import the whole client and half of the
broker. `ottla --help` lists the subcommands from `COMMANDS_BY_SUBJECT`.
"""

import os
import re
from collections.abc import Sequence
from contextvars import copy_context
from functools import cache, partial
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.main import get_command

from ottla import __version__
from ottla.command_line.command_group import CommandGroup
from ottla.command_line.global_options import SERVER_ORIGIN, CommandConfigBefore, ProfileBefore, ServerBefore
from ottla.command_line.shell_completion import VARIABLE, complete

COMMANDS_BY_SUBJECT: Final = {
    "Run brokers": {
        "broker": "Run a broker in the foreground; Ctrl-C or SIGTERM stops it cleanly.",
        "cluster": (
            "Run a cluster on 127.0.0.1: a registry and brokers, each in its own process; Ctrl-C stops all in order."
        ),
        "testing": "Kafka for tests in any language.",
        "faults": "Inject faults into a test cluster: its brokers, their connections and the answers to requests.",
    },
    "Records": {
        "produce": "Send each line as a record, without its newline. Lines may contain any bytes.",
        "consume": "Print all records of topics, or with --follow also new records as they arrive.",
        "perf": "Measure throughput and latency.",
    },
    "Topics, groups and transactions": {
        "topics": "List, create, describe, alter, trim and delete topics.",
        "groups": "Consumer groups: their members, offsets and lag.",
        "transactions": "Show transactions, their producers and partitions, fence producers, and abort hanging ones.",
    },
    "Brokers and replicas": {
        "brokers": "Show brokers with their partitions, log directories and settings.",
        "configs": "Show and change the settings of topics and brokers.",
        "log-dirs": "Show the log directories of brokers with their free space, and the size and lag of every replica.",
        "reassign": "Move partitions to other brokers and log directories, show the progress, cancel moves.",
        "elect-leaders": (
            "Make the controller elect the preferred leader (the first replica) of each partition, if it is in sync."
        ),
        "api-versions": (
            "Show the APIs that brokers serve, the range of their versions, and the version that this client uses."
        ),
    },
    "HTTP": {
        "console": "Serve the console of a Kafka cluster: pages and REST API; Ctrl-C stops it.",
    },
    "Security and quotas": {
        "certificates": "Certificates for TLS on this machine, for development.",
        "users": "Show, add and remove the users of SCRAM.",
        "acls": "Show, add and remove access control lists.",
        "quotas": "Show and change the quotas of users, client ids and addresses.",
        "tokens": "Show, create, renew and expire delegation tokens.",
    },
    "Log directories on this machine": {
        "dump-log": (
            "Print the content of the files. If a file is corrupt, print the position in bytes and exit with 1."
        ),
        "verify-log": (
            "Verify every batch, index, snapshot and checkpoint; print each error and its position,"
            " and exit with 1 if any."
        ),
        "adopt-logs": "Register the topics in the log directories of a stopped broker. For a cluster of one broker.",
    },
    "ZooKeeper": {
        "registry": "Run a registry that brokers and ZooKeeper clients can use, without Java; Ctrl-C stops it.",
        "zookeeper": "Run the ZooKeeper of pyspark's jars on 127.0.0.1, for development; Ctrl-C stops it.",
        "zk": "Show the tree of a cluster's ZooKeeper, and change it.",
    },
    "This command": {
        "profile": "Profiles: named clusters with client settings.",
        "completion": (
            "Print the script that makes a shell complete this command; `--install-completion` installs it."
        ),
        "help": "Show the help of a command: `ottla help topics create` is `ottla topics create --help`.",
    },
}
"""The first paragraph of each subcommand's help, by the subjects of `ottla --help`.

`ottla/commands/` has a module for each subcommand.
"""

COMMANDS: Final = {name: summary for commands in COMMANDS_BY_SUBJECT.values() for name, summary in commands.items()}


class _Root(CommandGroup):
    """The subcommands. They are registered with their summaries only; the one that runs is loaded."""

    def loaded(self, name: str, command: Any) -> Any:
        """Return the command or the group with this name, from its module."""
        command = load_command(name)
        _prepare_help(command)
        return command


def load_command(name: str) -> Any:
    """Import the module of a subcommand and return its command, a new one each time: a run changes its options."""
    return typer.main.get_group(_registered(name)).commands[name]


@cache
def _registered(name: str) -> typer.Typer:
    """Return the subcommand in a Typer application. Modules register once, or Typer would have all commands twice."""
    loaded = typer.Typer(rich_markup_mode="rich")
    import_module(f"ottla.commands.{name.replace('-', '_')}").register(loaded)
    for group in loaded.registered_groups:
        group.cls = CommandGroup
    return loaded


app = typer.Typer(
    cls=_Root,
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
for _subject, _commands in COMMANDS_BY_SUBJECT.items():
    for _name, _summary in _commands.items():
        app.command(_name, help=_summary, rich_help_panel=_subject)(lambda: None)


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
    bootstrap_server: ServerBefore = None,
    profile: ProfileBefore = None,
    command_config: CommandConfigBefore = None,
) -> None:
    pass


def run_app(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code. Errors are raised; Typer's have `format_message`."""
    command = get_command(app)
    _prepare_help(command)
    context = copy_context()  # the chosen profile is forgotten afterwards
    run = partial(context.run, command, list(arguments), prog_name="ottla", standalone_mode=False)
    if VARIABLE in os.environ:
        return complete(run)
    try:
        result = run()
    except Exception as error:
        if origin := context.get(SERVER_ORIGIN):
            error.add_note(f"the address is from {origin}")
        raise
    return result if isinstance(result, int) else 0


# What Rich takes for a tag: see `rich.markup.RE_TAGS`. Importing `rich.markup.escape` would slow down every command.
_TAG = re.compile(r"\[(?=[a-z#/@][^[]*])")


_LINE_BREAK = re.compile(r"(?<!\n)\n[ ]*(?=\w|--\w)")
"""A line break inside a paragraph of a docstring. Typer fills only the first paragraph to the width of the terminal."""


def _prepare_help(command: Any) -> None:
    """Prepare the help of a command and its subcommands: one line for each paragraph, and brackets that Rich prints."""
    for owner in (command, *command.params):
        for name in ("help", "short_help", "epilog"):
            if text := getattr(owner, name, None):
                setattr(owner, name, _LINE_BREAK.sub(" ", _TAG.sub(r"\[", text)))
    for subcommand in getattr(command, "commands", {}).values():
        _prepare_help(subcommand)
