"""`ottla users`: the users of SCRAM, through a broker, or in the registry before the first broker runs."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from broker.cluster.registry_access import REGISTRY_FILE
from client.errors import KafkaError
from ottla.command_line.clients import Admin
from ottla.command_line.confirmation import Yes, confirm
from ottla.command_line.failure import CommandError
from ottla.command_line.option_groups import with_option_groups
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer
from ottla.command_line.output import print_json, print_table
from ottla.command_line.registry_session import ZooKeeperConfig, opened
from ottla.command_line.session import run
from protocol.surrogates import has_lone_surrogate
from registry.embedded.store import EmbeddedStore
from registry.interface import Registry
from security.password_hash import ScryptHash
from security.sasl.scram import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM_MECHANISMS

users = typer.Typer(help="Show, add and remove the users of SCRAM.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="NAME", help="The user.")]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option("--mechanism", "-m", metavar="MECHANISM", help="SCRAM-SHA-256 or SCRAM-SHA-512. Repeatable."),
]
PasswordFile = Annotated[
    Path | None,
    typer.Option("--password-file", metavar="FILE", help="The password is the first line of this file."),
]


@dataclass(frozen=True)
class Place:
    """The options that say where the users are; without one of them, a broker is asked."""

    zookeeper: Annotated[
        str | None,
        typer.Option(
            "--zookeeper",
            "-z",
            metavar="HOST:PORT[/CHROOT]",
            help="Use ZooKeeper instead of a broker: for the first users of a cluster.",
        ),
    ] = None
    log_dir: Annotated[
        Path | None,
        typer.Option(
            "--log-dir",
            metavar="DIR",
            help="Use the embedded registry in the first log directory of a broker that does not run.",
        ),
    ] = None
    zookeeper_config: ZooKeeperConfig = None

    @property
    def is_a_broker(self) -> bool:
        """Whether the command asks a broker."""
        return self.zookeeper is None and self.log_dir is None

    @contextlib.asynccontextmanager
    async def registry(self, *, make: bool = False) -> AsyncIterator[Registry]:
        """Open the registry. make: it need not exist yet. Raises CommandError."""
        if self.zookeeper is not None and self.log_dir is not None:
            raise CommandError("give only one of --zookeeper and --log-dir")
        if self.log_dir is not None and make and not (self.log_dir / REGISTRY_FILE).exists():
            await asyncio.to_thread(self.log_dir.mkdir, parents=True, exist_ok=True)
            store = await EmbeddedStore.open(self.log_dir / REGISTRY_FILE)
            await store.close()
        config = self.zookeeper_config
        async with opened(self.zookeeper or "", self.log_dir, make_chroot=make, config=config) as registry:
            yield registry


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(users, name="users")


@users.command("list", epilog="Example:  ottla users list")
@with_option_groups
def list_users(
    place: Place,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """List the users that have a SCRAM credential, with their mechanisms and iterations."""

    async def main() -> None:
        if place.is_a_broker:
            async with Admin(bootstrap_servers=bootstrap_server) as admin:
                described = await admin.describe_scram_users()
            found = {name: one for name, one in described.items() if not isinstance(one, KafkaError)}
        else:
            from ottla.zookeeper.scram_users import scram_users

            async with place.registry() as registry:
                found = await scram_users(registry)
        rows = [(name, mechanism, count) for name, one in sorted(found.items()) for mechanism, count in one.items()]
        if as_json:
            print_json([{"user": name, "mechanism": mechanism, "iterations": count} for name, mechanism, count in rows])
        else:
            print_table(("user", "mechanism", "iterations"), rows)

    run(main())


@users.command(epilog="Example:  ottla users add alice --mechanism SCRAM-SHA-512 < password.txt")
@with_option_groups
def add(
    *,
    name: Name,
    mechanism: Mechanisms = None,
    iterations: Annotated[
        int,
        typer.Option(
            "--iterations",
            help="Hash iterations: with more, guesses are slower.",
            min=MIN_ITERATIONS,
            max=MAX_ITERATIONS,
        ),
    ] = MIN_ITERATIONS,
    password_file: PasswordFile = None,
    place: Place,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Add a user, or change its password.

    The command asks for the password at a terminal, and otherwise reads the first line of its input. The user can log
    in with both mechanisms if --mechanism is not given.
    """
    wanted = _mechanisms(mechanism)
    password = _password(name, password_file)
    for what, text in (("the name of the user", name), ("the password", password)):
        if has_lone_surrogate(text):
            raise CommandError(f"{what} must be a text in UTF-8")

    async def main() -> None:
        if place.is_a_broker:
            async with Admin(bootstrap_servers=bootstrap_server) as admin:
                await admin.set_scram_password(name, password, wanted, iterations=iterations)
        else:
            from ottla.zookeeper.scram_users import set_password

            async with place.registry(make=True) as registry:
                await set_password(registry, name, password, wanted, iterations)
        typer.echo(f"{name} can log in with {' and '.join(wanted)}")

    run(main())


@users.command("hash", epilog="Example:  ottla users hash alice >> console-users")
def hash_password(
    name: Name,
    password_file: PasswordFile = None,
) -> None:
    """Print a line for the console's file of users (ottla.console.password.file).

    The line contains the name and a hash of the password (scrypt). The command asks for the password at a terminal, and
    otherwise reads the first line of its input. It connects to no broker.
    """
    if not name or ":" in name or not name.isprintable() or name != name.strip() or name.startswith("#"):
        rule = "must not be empty, contain a colon or control characters, begin with #, or begin or end with a space"
        raise CommandError(f"{name!r}: a name {rule}")
    typer.echo(f"{name}:{ScryptHash.of_password(_password(name, password_file))}")


@users.command(epilog="Example:  ottla users remove alice --yes")
@with_option_groups
def remove(
    *,
    name: Name,
    mechanism: Mechanisms = None,
    yes: Yes = False,
    place: Place,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Remove the SCRAM credentials of a user: all, or those of some mechanisms. Connections that exist stay open."""
    asked = None if mechanism is None else _mechanisms(mechanism)
    confirm(f"Remove the SCRAM credentials of {name}?", yes=yes)

    async def main() -> None:
        if place.is_a_broker:
            async with Admin(bootstrap_servers=bootstrap_server) as admin:
                found = (await admin.describe_scram_users([name]))[name]
                if isinstance(found, KafkaError):
                    raise found
                await admin.delete_scram_credentials(name, asked or list(found))
        else:
            from ottla.zookeeper.scram_users import remove as remove_user
            from ottla.zookeeper.scram_users import scram_users

            async with place.registry() as registry:
                credentials = (await scram_users(registry)).get(name)
                if credentials is None:
                    raise CommandError(f"{name} has no SCRAM credential")
                await remove_user(registry, name, asked or list(credentials))
        typer.echo(f"{name} removed" if asked is None else f"{name} cannot log in with {' and '.join(asked)} any more")

    run(main())


def _mechanisms(names: list[str] | None) -> list[str]:
    for name in names or ():
        if name not in SCRAM_MECHANISMS:
            raise CommandError(f"--mechanism {name}: must be one of {', '.join(SCRAM_MECHANISMS)}")
    return list(dict.fromkeys(names or SCRAM_MECHANISMS))


def _password(name: str, file: Path | None) -> str:
    """Return the password of a user: from a file, from a terminal without an echo, or from the standard input."""
    if file is not None:
        password = file.read_text(encoding="utf-8", errors="surrogateescape").partition("\n")[0]
    elif sys.stdin.isatty():
        password = typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.buffer.readline().decode(errors="surrogateescape")
    password = password.rstrip("\r\n")
    if not password:
        raise CommandError("the password is empty")
    return str(password)
