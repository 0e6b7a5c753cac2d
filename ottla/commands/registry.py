"""`ottla registry`: serve the embedded registry over ZooKeeper's client protocol until Ctrl-C."""

import asyncio
import ipaddress
import socket
from pathlib import Path
from typing import Annotated

import typer

from ottla.command_line.failure import CommandError
from ottla.command_line.running import on_stop_signals, run, say
from registry.embedded.store import EmbeddedStore
from registry.errors import RegistryError
from registry.server.server import RegistryServer

_PORT = 2181
_HERE = "127.0.0.1"
_FILE = "registry.sqlite"


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command(epilog="Example:  ottla registry --data-dir ./registry")
    def registry(
        port: Annotated[
            int, typer.Option("--port", "-p", min=0, max=65535, help="The port for clients; 0: any free port.")
        ] = _PORT,
        data_dir: Annotated[
            Path | None,
            typer.Option("--data-dir", "-d", metavar="DIR", help="Where to keep the data. Default: in memory only."),
        ] = None,
        listen: Annotated[str, typer.Option(metavar="HOST", help="The address for clients; 0.0.0.0: all.")] = _HERE,
        descriptor: Annotated[
            int | None,
            typer.Option(
                "--fd",
                metavar="N",
                min=3,
                help="A listening socket that the parent process has opened, instead of --listen and --port.",
            ),
        ] = None,
    ) -> None:
        """Run a registry that brokers and ZooKeeper clients can use, without Java; Ctrl-C stops it.

        It speaks ZooKeeper's client protocol. It is one node, for development and tests: in production, use an ensemble
        of ZooKeeper servers.
        """
        listener = None if descriptor is None else _listening_socket(descriptor)
        if listener is not None:
            listen, port = listener.getsockname()[:2]
        run(_serve(listen, port, None if data_dir is None else _file_in(data_dir), listener))


def _listening_socket(descriptor: int) -> socket.socket:
    try:
        found = socket.socket(fileno=descriptor)
    except OSError as error:
        raise CommandError(f"--fd {descriptor}: {error.strerror}") from None
    rule = None
    if found.family not in (socket.AF_INET, socket.AF_INET6) or found.type != socket.SOCK_STREAM:
        rule = "not a TCP socket"
    elif not found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        rule = "the socket does not listen"
    if rule is not None:
        found.close()
        raise CommandError(f"--fd {descriptor}: {rule}")
    return found


def _file_in(data_dir: Path) -> Path:
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"{data_dir}: cannot be created: {error.strerror}") from None
    return data_dir.absolute() / _FILE


async def _serve(listen: str, port: int, file: Path | None, listener: socket.socket | None = None) -> None:
    stop = asyncio.Event()
    failures: list[RegistryError] = []

    def failed(error: RegistryError) -> None:
        failures.append(error)
        stop.set()

    on_stop_signals(stop.set)
    try:
        store = await EmbeddedStore.open(file, keep_sessions=True)
    except RegistryError as error:
        raise CommandError(str(error)) from None
    store.on_failure(failed)
    try:
        server = RegistryServer(store)
        try:
            await server.start(listen, port, listener=listener)
        except OSError as error:
            raise CommandError(f"{listen}:{port}: cannot listen: {error.strerror or error}") from None
        try:
            if not _is_loopback(listen):
                say(f"everyone who reaches {listen}:{server.port} can read and change the registry")
            _say_ready(server, listen, file)
            await stop.wait()
            if failures:
                raise CommandError(str(failures[0]))
        finally:
            await server.close()
    finally:
        await store.close()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _say_ready(server: RegistryServer, listen: str, file: Path | None) -> None:
    connect = f"{listen if _is_loopback(listen) else _HERE}:{server.port}"
    lines = [
        "",
        "The registry is ready: one node, for development and tests.",
        f"  connect     {connect}",
        f"  data        {file or 'in memory'}",
        "",
        "Try, in another terminal:",
        f"  ottla broker --set zookeeper.connect={connect}",
        f"  ottla zk tree --zookeeper {connect}",
        "",
    ]
    print("\n".join(lines), flush=True)
