"""`ottla zookeeper`: run a ZooKeeper server or ensemble on this machine, or one server of an ensemble, until Ctrl-C."""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from ottla.command_line.failure import CommandError
from ottla.command_line.running import on_stop_signals, run, say
from ottla.zookeeper.files import Peer
from ottla.zookeeper.member import ZooKeeperMember
from ottla.zookeeper.server import ZooKeeperEnsemble

_LOOK_S = 0.25  # how soon the end of a server is noticed
_MEMBER_PORT = 2181
_HERE = "127.0.0.1"


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command(epilog="Example:  ottla zookeeper --nodes 3 --data-dir ./zookeeper")
    def zookeeper(
        nodes: Annotated[int, typer.Option("--nodes", "-n", min=1, max=7, help="How many servers: 1, or 3.")] = 1,
        port: Annotated[
            int,
            typer.Option("--port", "-p", min=0, max=65535, help="Port of the first server; 0: any free port."),
        ] = 0,
        data_dir: Annotated[
            Path | None,
            typer.Option("--data-dir", "-d", metavar="DIR", help="Where to keep the data. Default: temporary."),
        ] = None,
        number: Annotated[
            int | None, typer.Option("--id", metavar="N", help="The number of this server in --servers, from 1.")
        ] = None,
        servers: Annotated[
            str | None,
            typer.Option(
                metavar="HOST:PORT:PORT,...",
                help="All servers of the ensemble, each with its two ports for the others; only one runs here.",
            ),
        ] = None,
        listen: Annotated[
            str, typer.Option(metavar="HOST", help="With --servers: the address for clients; 0.0.0.0: all.")
        ] = _HERE,
    ) -> None:
        """Run the ZooKeeper of pyspark's jars on 127.0.0.1, for development; Ctrl-C stops it.

        With --servers and --id it runs one server of an ensemble on several machines.

        Needs pyspark and a Java: pip install 'ottla[zookeeper]' installs both.
        """
        if servers is None and number is None:
            if listen != _HERE:
                raise CommandError("--listen needs --servers")
            run(_serve_ensemble(nodes, port, data_dir))
            return
        if servers is None or number is None or data_dir is None:
            raise CommandError("one server of an ensemble needs --servers, --id and --data-dir")
        if nodes != 1:
            raise CommandError("--servers and --nodes cannot be used together")
        run(_serve_member(servers, number, data_dir, listen, port or _MEMBER_PORT))


async def _serve_ensemble(nodes: int, port: int, data_dir: Path | None) -> None:
    ensemble = ZooKeeperEnsemble(data_dir, nodes=nodes, port=port)
    await _serve(ensemble, lambda: _say_ready(ensemble, is_kept=data_dir is not None))


async def _serve_member(servers: str, number: int, data_dir: Path, listen: str, port: int) -> None:
    peers = [Peer.parse(text) for text in servers.split(",")]
    member = ZooKeeperMember(data_dir, number, peers, listen=listen, port=port)
    await _serve(member, lambda: print(f"ZooKeeper serves on {member.connect}.", flush=True))


async def _serve(ensemble: ZooKeeperEnsemble | ZooKeeperMember, say_ready: Callable[[], None]) -> None:
    stop = asyncio.Event()
    on_stop_signals(stop.set)
    try:
        starting = asyncio.create_task(ensemble.start())
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.wait([starting])
            return
        stopping.cancel()
        await starting
        say_ready()
        await _watch(ensemble, stop)
    finally:
        ensemble.close()


async def _watch(ensemble: ZooKeeperEnsemble | ZooKeeperMember, stop: asyncio.Event) -> None:
    """Wait for `stop`, and report servers that end. Raises CommandError if no server is left."""
    ended: set[str] = set()
    while not stop.is_set():
        for server in ensemble.servers:
            if not server.is_running and server.address not in ended:
                ended.add(server.address)
                say(f"the ZooKeeper on {server.address} has ended: {server.last_words()}")
        if len(ended) == len(ensemble.servers):
            raise CommandError("no ZooKeeper is left")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_S):
                await stop.wait()


def _say_ready(ensemble: ZooKeeperEnsemble, *, is_kept: bool) -> None:
    lines = ["", "ZooKeeper is ready.", f"  connect     {ensemble.connect}"]
    if len(ensemble.servers) > 1:
        lines += [f"  {server.address:<22}{server.mode()}, pid {server.pid}" for server in ensemble.servers]
    lines.append(f"  data        {ensemble.data_dir}{'' if is_kept else ' (temporary)'}")
    lines += ["", "Try, in another terminal:"]
    lines.append(f"  ottla broker --set zookeeper.connect={ensemble.connect}")
    lines += [f"  ottla zk tree --zookeeper {ensemble.connect}", ""]
    print("\n".join(lines), flush=True)
