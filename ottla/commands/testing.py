"""`ottla testing`: Kafka for tests in any language."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from ottla.command_line.completion import complete_broker_settings
from ottla.command_line.failure import CommandError
from ottla.command_line.options import parse_pairs
from ottla.command_line.session import say
from ottla.testing.broker_log import BrokerLog
from ottla.testing.broker_thread import BrokerThread
from ottla.testing.child_command import CommandNotStartedError, Signals
from ottla.testing.cluster_thread import ClusterThread

testing = typer.Typer(no_args_is_help=True, help="Kafka for tests in any language.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(testing, name="testing")


class _NotStartedError(CommandError):
    """The command cannot be started."""

    def __init__(self, error: CommandNotStartedError) -> None:
        super().__init__(str(error))
        self.exit_code = error.exit_code


@testing.command(
    "run",
    epilog="Example:  ottla testing run --brokers 3 -- npm test",
    context_settings={"allow_interspersed_args": False},  # what follows the command's name belongs to it
)
def run_tests(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="The command, after --.")],
    brokers: Annotated[int, typer.Option("--brokers", min=1, max=20, help="How many brokers.")] = 1,
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
    version: Annotated[
        str | None,
        typer.Option(metavar="RELEASE", help="The Kafka release whose API versions the brokers have, e.g. 2.8."),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", "-d", metavar="DIR", help="Where to keep the data. Default: temporary."),
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="Print the brokers' log from this level on, e.g. INFO.")
    ] = None,
) -> None:
    """Run a command with brokers of its own, which listen on free ports of 127.0.0.1 and stop when it ends.

    The command finds their addresses in the environment variables OTTLA_BOOTSTRAP_SERVER and KAFKA_BOOTSTRAP_SERVERS,
    and the control API, through which `ottla faults` injects faults, in OTTLA_CONTROL_URL. Signals are passed on to it.
    The exit code is that of the command, 128 + N if signal N has ended it.

    One broker has the id 0; several have the ids 1, 2, 3, ….
    """
    chosen = parse_pairs(settings, "--set")
    try:
        server = (
            BrokerThread(chosen, version=version, directory=data_dir)
            if brokers == 1
            else ClusterThread(brokers, chosen, version=version, directory=data_dir)
        )
    except ValueError as error:
        raise CommandError(str(error)) from None
    with _logging(log_level), Signals() as signals, server:
        addresses = server.bootstrap_servers
        say(f"ottla: {brokers} broker{'' if brokers == 1 else 's'} on {addresses}; running {command[0]}")
        environment = {
            "OTTLA_BOOTSTRAP_SERVER": addresses,
            "KAFKA_BOOTSTRAP_SERVERS": addresses,
            "OTTLA_CONTROL_URL": server.serve_control(),
        }
        try:
            code = signals.run(command, environment)
        except CommandNotStartedError as error:
            raise _NotStartedError(error) from None
    raise typer.Exit(code)


@contextlib.contextmanager
def _logging(level: str | None) -> Iterator[None]:
    """Print the brokers' log on standard error, or nothing: brokers that stop together would only report each other."""
    if level is None:
        log = BrokerLog(logging.CRITICAL)
        log.attach()
        try:
            yield
        finally:
            log.detach()
        return
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise CommandError(f"--log-level {level}: is no level of a log")
    logging.basicConfig(level=number, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    yield


@testing.callback()
def _group() -> None:
    """Kafka for tests in any language."""
