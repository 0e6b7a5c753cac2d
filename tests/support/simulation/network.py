"""The network of the simulation: `client.wire.network.Network` for every process, bytes in memory.

Hosts have names; a listening socket belongs to a host and a port. Frames are what production code encodes and cuts:
the network moves bytes, in segments of random sizes, and every one is noted in the trace.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import zlib
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from client.wire.network import LISTEN_BACKLOG, unchanged
from protocol.api_keys import ApiKey
from support.simulation.link import QUICK_S, Link, Pipe
from support.simulation.process import SimulatedProcess
from support.simulation.trace import Trace
from support.simulation.transport import FIN, RESET, SimulatedTransport

P = TypeVar("P", bound=asyncio.BaseProtocol)

_SEGMENT_BYTES = 16 * 1024
_FIRST_PORT = 30_000


_KEPT_CONNECTIONS = 100
_REPEATABLE = {
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    ApiKey.ALTER_PARTITION,
}


class SimulatedServer:
    """A listening socket."""

    def __init__(
        self,
        network: SimulatedNetwork,
        process: SimulatedProcess,
        port: int,
        factory: Callable[[], asyncio.BaseProtocol],
    ) -> None:
        self.process = process
        self.factory = factory
        self._network = network
        self._port = port

    @property
    def port(self) -> int:
        """The bound port."""
        return self._port

    def close(self) -> None:
        """Stop accepting."""
        self._network.unlisten(self)

    async def wait_closed(self) -> None:
        """Return at once: the socket is already closed."""


class SimulatedNetwork:
    """All hosts, the links between them, and the connections."""

    def __init__(self, rng: random.Random, trace: Trace) -> None:
        self._random = rng
        self._trace = trace
        self._servers: dict[tuple[str, int], SimulatedServer] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._hosts: list[str] = []
        self._off: set[str] = set()
        self._connections: dict[int, tuple[SimulatedTransport, SimulatedTransport]] = {}
        self._repeatable: deque[tuple[str, str, int, SimulatedTransport]] = deque(maxlen=_KEPT_CONNECTIONS)
        self._ports = itertools.count(_FIRST_PORT)
        self._numbers = itertools.count(1)
        self.frames_between: dict[tuple[str, str], int] = {}
        """Segments that arrived, by the hosts they went from and to."""

    def of(self, process: SimulatedProcess) -> ProcessNetwork:
        """The network as a process sees it."""
        return ProcessNetwork(self, process)

    # -- faults ------------------------------------------------------------------------------------------------------

    def link(self, source: str, target: str) -> Link:
        """The link from a host to another."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link(self._random)
            for host in (source, target):
                if host in self._off:
                    link.cut()
        return link

    def _links_of(self, host: str) -> list[Link]:
        return [link for ends, link in sorted(self._links.items()) if host in ends]

    def delay(self, source: str, target: str, latency_s: tuple[float, float] = QUICK_S) -> None:
        """Set the minimum and maximum latency of a link."""
        self.link(source, target).latency_s = latency_s

    def reset(self, one: str, other: str) -> None:
        """Break every connection between two hosts; some of what is on the way still arrives."""
        for first, second in list(self._connections.values()):
            if {first.process.host, second.process.host} == {one, other}:
                for end in (first, second):
                    pipe = end.on_the_way()
                    pipe.drop(self._random.randint(0, len(pipe)))
                    pipe.send(RESET)

    def pipes(self, source: str, target: str) -> list[Pipe]:
        """What is open from a host to another: one direction of each connection between them."""
        return [
            end.on_the_way()
            for ends in self._connections.values()
            for end, other in (ends, ends[::-1])
            if end.process.host == source and other.process.host == target and not end.is_gone
        ]

    async def repeat(self, source: str, target: str) -> None:
        """Send what was sent on a connection, open or closed, once more on another one, and ignore the answers.

        Only what clients and followers ask for: what a controller sends has no version that a broker could compare, if
        the same controller sends it twice, in Kafka neither.
        """
        found = [
            (port, frames)
            for host, there, port, transport in self._repeatable
            if (host, there) == (source, target) and (frames := _repeatable_frames(transport.sent))
        ]
        if not found:
            return
        port, frames = self._random.choice(found)
        self._trace.note("repeat", source, target, len(frames))
        try:
            transport, _ = await self.connect(SimulatedProcess(source), asyncio.Protocol, target, port)
        except ConnectionRefusedError:
            return
        transport.write(frames)
        await asyncio.sleep(self._random.uniform(0.1, 3.0))
        transport.abort()

    def process_died(self, process: SimulatedProcess, *, power_cut: bool) -> None:
        """Close the sockets of a dead process, with or without notifying the peers."""
        for key, server in list(self._servers.items()):
            if server.process is process:
                del self._servers[key]
        for number, ends in list(self._connections.items()):
            for end in ends:
                if end.process is process:
                    if power_cut:
                        end.on_the_way().drop()
                    end.kernel_closes(None if power_cut else self._random.choice((FIN, RESET)))
                    self._connections.pop(number, None)

    def power_off(self, host: str) -> None:
        """Disconnect the host: nothing reaches it, and it sends nothing."""
        self._off.add(host)
        for link in self._links_of(host):
            link.cut()

    def power_on(self, host: str) -> None:
        """The host is back; what is on its way to connections that it does not know any more is answered by resets."""
        self._off.discard(host)
        for link in self._links_of(host):
            link.heal()

    # -- connections -------------------------------------------------------------------------------------------------

    def listen(
        self, process: SimulatedProcess, factory: Callable[[], asyncio.BaseProtocol], port: int
    ) -> SimulatedServer:
        """Make a listening socket."""
        port = port or next(self._ports)
        if (process.host, port) in self._servers:
            raise OSError(98, f"port {port} of {process.host} is taken")
        server = self._servers[process.host, port] = SimulatedServer(self, process, port, factory)
        return server

    def unlisten(self, server: SimulatedServer) -> None:
        """Close a listening socket."""
        key = (server.process.host, server.port)
        if self._servers.get(key) is server:
            del self._servers[key]

    async def connect(
        self, process: SimulatedProcess, factory: Callable[[], P], host: str, port: int
    ) -> tuple[SimulatedTransport, P]:
        """Connect. A host without power is waited for, as TCP does; where nobody listens, that is said."""
        there, back = self.link(process.host, host), self.link(host, process.host)
        await there.cross()
        server = self._servers.get((host, port))
        if server is None:
            await back.cross()
            raise ConnectionRefusedError(111, "Connection refused")
        number = next(self._numbers)
        ours = SimulatedTransport(process, (host, port), self._segment_bytes)
        theirs = SimulatedTransport(server.process, (process.host, next(self._ports)), self._segment_bytes)
        name = f"{number}:{process.host}>{host}"
        ours.connect(theirs, Pipe(2 * number, there, lambda item: self._arrived(name, ours, theirs, item)))
        theirs.connect(ours, Pipe(2 * number + 1, back, lambda item: self._arrived(name, theirs, ours, item)))
        self._connections[number] = (ours, theirs)
        self._repeatable.append((process.host, host, port, ours))
        self._forget_closed()
        self._trace.note("connect", name)
        loop = asyncio.get_running_loop()
        factory_there = server.factory
        loop.call_soon(lambda: theirs.begin(factory_there()), context=server.process.context)
        try:
            await back.cross()
        except BaseException:
            ours.kernel_closes(RESET)
            raise
        protocol = factory()
        ours.begin(protocol)
        return ours, protocol

    def _arrived(self, name: str, source: SimulatedTransport, target: SimulatedTransport, item: object) -> None:
        assert isinstance(item, (bytes, str))
        ends = (source.process.host, target.process.host)
        if isinstance(item, bytes):
            self._trace.note(name, "to", ends[1], len(item), zlib.crc32(item))
            self.frames_between[ends] = self.frames_between.get(ends, 0) + 1
        else:
            self._trace.note(name, "to", ends[1], item)
        target.arrive(item)

    def _forget_closed(self) -> None:
        if len(self._connections) > 200:
            self._connections = {
                number: ends for number, ends in self._connections.items() if not (ends[0].is_gone and ends[1].is_gone)
            }

    def _segment_bytes(self) -> int:
        """Mostly all available bytes; sometimes only a few, so that frames arrive in pieces."""
        return _SEGMENT_BYTES if self._random.random() < 0.9 else self._random.randint(1, 200)


class ProcessNetwork:
    """The `Network` of one process."""

    def __init__(self, network: SimulatedNetwork, process: SimulatedProcess) -> None:
        self._network = network
        self._process = process

    def accepts(self, port: int) -> Callable[[asyncio.BaseProtocol], asyncio.BaseProtocol]:
        """See `Network`."""
        return unchanged

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        backlog: int = LISTEN_BACKLOG,
    ) -> SimulatedServer:
        """See `client.wire.network.Network.listen`; `host` is this process's own."""
        return self._network.listen(self._process, protocol_factory, port)

    async def connect(self, protocol_factory: Callable[[], P], host: str, port: int) -> tuple[SimulatedTransport, P]:
        """See `client.wire.network.Network.connect`."""
        return await self._network.connect(self._process, protocol_factory, host, port)


def _repeatable_frames(sent: bytearray) -> bytes:
    """The whole frames at the begin of what was sent; nothing if one of them may not be repeated."""
    position = 0
    while position + 6 <= len(sent):
        end = position + 4 + int.from_bytes(sent[position : position + 4], "big")
        if int.from_bytes(sent[position + 4 : position + 6], "big") not in _REPEATABLE:
            return b""
        if end > len(sent):
            break
        position = end
    return bytes(sent[:position])
