"""`ottla certificates`: TLS for development with one command."""

import datetime
import os
import re
from pathlib import Path
from typing import Annotated

import typer

from ottla.command_line.failure import CommandError
from security.tls.development import DevelopmentAuthority, KeyPair
from security.tls.errors import TlsConfigError

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_CLIENT_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
_HOST = re.compile(r"[\w.:-]{1,253}", re.ASCII)

certificates = typer.Typer(help="Certificates for TLS on this machine, for development.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(certificates, name="certificates")


@certificates.callback()
def _group() -> None:
    """Certificates for TLS on this machine, for development."""


@certificates.command(
    epilog="Example:  ottla certificates init tls;  ottla broker tls/server.properties",
)
def init(
    directory: Annotated[
        Path, typer.Argument(metavar="[DIR]", help="The folder to write to; it is created.", show_default=True)
    ] = Path("certificates"),
    hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="HOST",
            help="A name or address of the broker, beside localhost. The first is the advertised one. Repeatable.",
        ),
    ] = None,
    clients: Annotated[
        list[str] | None,
        typer.Option("--client", metavar="NAME", help="A client: its user is User:CN=NAME. Repeatable."),
    ] = None,
    days: Annotated[int, typer.Option("--days", min=1, max=3650, help="How long the certificates are valid.")] = 365,
) -> None:
    """Make an authority, and certificates of a broker and of each client: PEM files, and settings that use them.

    The keys are not encrypted; only their owner can read the files. For production, use your own authority.
    """
    hosts, clients = hosts or [], clients or ["client"]
    _check("--host", hosts, _HOST)
    _check("--client", clients, _CLIENT_NAME)
    reserved = {"ca", "ca-key", "broker"} & set(clients)
    if reserved or len(set(clients)) < len(clients):
        raise CommandError("--client: each client needs its own name, and not ca, ca-key or broker")
    try:
        authority = DevelopmentAuthority(days, datetime.datetime.now(datetime.UTC))
    except TlsConfigError as error:
        raise CommandError(error.rule) from None
    folder = directory.absolute()
    files = {
        "ca.pem": authority.pair.chain,
        "ca-key.pem": authority.pair.key,
        "broker.pem": _both(authority.broker([*hosts, *(host for host in LOCAL_HOSTS if host not in hosts)])),
        "server.properties": _server_properties(folder, hosts),
    }
    for name in clients:
        files[f"{name}.pem"] = _both(authority.client(name))
        files[f"{name}.properties"] = _client_properties(folder, name, hosts)
    _write(folder, files)
    print(f"{len(files)} files are in {directory}. Start a broker, and look at it as {clients[0]}:\n")
    print(f"  ottla broker {directory / 'server.properties'}")
    print(f"  kcat -L -b {_server(hosts)} {_kcat_options(directory, clients[0])}\n")
    print(f"Settings of Java clients are in {directory / (clients[0] + '.properties')}.")


def _check(option: str, values: list[str], pattern: re.Pattern[str]) -> None:
    for value in values:
        if pattern.fullmatch(value) is None:
            raise CommandError(f"{option}: {value!r} may contain letters, digits, dots and dashes only")


def _both(pair: KeyPair) -> str:
    return pair.key + pair.chain


def _write(folder: Path, files: dict[str, str]) -> None:
    """Write all files, or none if one of them exists: a new authority would make the others useless."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in files:
        if (folder / name).exists():
            raise CommandError(f"{folder / name} exists: remove it, or name another folder")
    for name, text in files.items():
        mode = 0o644 if name == "ca.pem" or name.endswith(".properties") else 0o600
        descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)


def _server(hosts: list[str]) -> str:
    host = hosts[0] if hosts else "localhost"
    return f"[{host}]:9093" if ":" in host else f"{host}:9093"


def _server_properties(folder: Path, hosts: list[str]) -> str:
    listen = "SSL://:9093" if hosts else "SSL://localhost:9093"
    return f"""\
broker.id=0
log.dirs={folder / "data"}
listeners=PLAINTEXT://127.0.0.1:9092,{listen}
advertised.listeners=PLAINTEXT://127.0.0.1:9092,SSL://{_server(hosts)}
ssl.keystore.type=PEM
ssl.keystore.location={folder / "broker.pem"}
ssl.truststore.type=PEM
ssl.truststore.location={folder / "ca.pem"}
listener.name.ssl.ssl.client.auth=required
"""


def _client_properties(folder: Path, name: str, hosts: list[str]) -> str:
    return f"""\
bootstrap.servers={_server(hosts)}
security.protocol=SSL
ssl.keystore.type=PEM
ssl.keystore.location={folder / name}.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder / "ca.pem"}
"""


def _kcat_options(directory: Path, name: str) -> str:
    client = directory / f"{name}.pem"
    return " ".join(
        f"-X {setting}={value}"
        for setting, value in (
            ("security.protocol", "ssl"),
            ("ssl.ca.location", directory / "ca.pem"),
            ("ssl.certificate.location", client),
            ("ssl.key.location", client),
        )
    )
