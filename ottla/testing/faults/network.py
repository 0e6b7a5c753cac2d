"""The network of the brokers of a cluster, with what goes wrong with connections.

Faults of a connection are at the end of the broker that accepted it. The end of a broker that opens a connection is
needed for two things: to know which connections are those of brokers, and for connections that cannot be opened.
"""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from client.wire.network import LISTEN_BACKLOG, AsyncioNetwork, Network, Server
from ottla.testing.faults.active_fault import ActiveFault
from ottla.testing.faults.flow import NORMAL, Conditions
from ottla.testing.faults.link import Link
from ottla.testing.faults.openers import LocalOpeners, Openers

P = TypeVar("P", bound=asyncio.BaseProtocol)

_FIRST_FORGET: Final = 32
"""So many connections may be kept after they are closed."""


@dataclass(frozen=True, eq=False)
class Rule:
    """What happens to some connections, new ones and those that exist.

    peers: connections between brokers; else those of clients. broker: only those of this broker; peer: and of this one.
    client_id: only those with this client id, also of brokers. inbound and outbound are seen from `broker`.
    """

    broker: int | None = None
    client_id: str | None = None
    peers: bool = False
    peer: int | None = None
    inbound: Conditions = NORMAL
    outbound: Conditions = NORMAL
    refuses: bool = False
    """New connections are reset, or refused if a broker opens them."""
    limit: ActiveFault | None = None
    """The fault whose count is the number of connections that the rule meets; None: it meets all."""
    met: set[Link] = field(default_factory=set)
    """With a limit: the connections that the rule has met, and that exist."""

    def between(self, opener: int, acceptor: int) -> bool | None:
        """Return whether the rule is about connections between two brokers, as seen from the acceptor.

        None: it is not. False: `broker` is the one that opens them.
        """
        if not self.peers or opener == acceptor:
            return None
        if self.broker in (None, acceptor) and self.peer in (None, opener):
            return True
        if self.broker == opener and self.peer in (None, acceptor):
            return False
        return None

    def applies_to(self, link: Link, opener: int | None) -> bool | None:
        """Return whether the rule is about this connection. opener: the broker that opened it; None for a client."""
        if self.peers:
            return None if opener is None else self.between(opener, link.broker_id)
        if self.broker not in (None, link.broker_id):
            return None
        matches = opener is None if self.client_id is None else self.client_id == link.client_id
        return True if matches else None

    def meets(self, link: Link, opener: int | None) -> bool | None:
        """`applies_to`, within the limit: a connection counts when its first request arrives, and until it is closed.

        A connection that is refused counts each time that this is called.
        """
        view = self.applies_to(link, opener)
        if view is None or self.limit is None or link in self.met:
            return view
        if not link.is_identified or link.has_ended or not self.limit.take(waits=not self.refuses):
            return None
        if not self.refuses:
            self.met.add(link)
        return view

    def lost(self, link: Link) -> None:
        """A connection is closed, at least by the client."""
        if link in self.met:
            self.met.discard(link)
            assert self.limit is not None
            self.limit.end_use()

    def refuses_opener(self) -> bool:
        """Return whether a broker cannot open a connection now, and count it."""
        return self.refuses and (self.limit is None or self.limit.take())


class NetworkFaults:
    """The connections that the brokers of a cluster have accepted, and the rules for them."""

    def __init__(self, openers: Openers | None = None) -> None:
        """openers: the connections that brokers open; by default those of this process."""
        self._openers = openers or LocalOpeners()
        self._rules: list[Rule] = []
        # A link that has stepped aside is not told when its connection is closed: see `_forget_closed`.
        self._links: dict[Link, None] = {}
        self._forget_at = _FIRST_FORGET
        self._waiting: set[asyncio.Future[None]] = set()  # brokers that cannot connect

    def network(self, broker_id: int, network: Network | None = None) -> FaultyNetwork:
        """Return the network of a broker. network: what it is built on."""
        return FaultyNetwork(broker_id, self, network or AsyncioNetwork())

    def links(self, rule: Rule) -> list[Link]:
        """Return the connections that a rule is about."""
        return [link for link in self._links if not link.is_closed and rule.meets(link, self._opener(link)) is not None]

    def add(self, rule: Rule) -> None:
        """Apply a rule from now on."""
        self._rules.append(rule)
        self._apply()

    def remove(self, rule: Rule) -> None:
        """Apply a rule no more."""
        self._rules.remove(rule)
        self._apply()

    def _apply(self) -> None:
        for link in list(self._links):
            link.change(*self._conditions(link))
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    def _conditions(self, link: Link) -> tuple[Conditions, Conditions]:
        inbound = outbound = NORMAL
        opener = self._opener(link)
        for rule in [one for one in self._rules if not one.refuses]:
            is_acceptors_view = rule.meets(link, opener)
            if is_acceptors_view is not None:
                to, back = (rule.inbound, rule.outbound) if is_acceptors_view else (rule.outbound, rule.inbound)
                inbound, outbound = inbound.with_(to), outbound.with_(back)
        return inbound, outbound

    def _is_refused(self, link: Link) -> bool:
        opener = self._opener(link)
        return any(rule.refuses and rule.meets(link, opener) is not None for rule in self._rules)

    def opener(self, host: str, port: int, to_port: int) -> int | None:
        """Return the broker that opened the connection from this address to this port; None for a client."""
        return self._openers.find(host, port, to_port)

    def _opener(self, link: Link) -> int | None:
        if link.peer is None or link.local is None:
            return None
        return self.opener(str(link.peer[0]), int(link.peer[1]), int(link.local[1]))

    # -- of the networks ---------------------------------------------------------------------------------------------

    def link(self, broker_id: int, inner: asyncio.BaseProtocol) -> asyncio.BaseProtocol:
        """Return what stands between the transport of a new connection and its protocol."""
        if not isinstance(inner, asyncio.BufferedProtocol):
            return inner  # not of Kafka's protocol
        return Link(broker_id, inner, made=self._made, identified=self._identified, ended=self._ended, lost=self._lost)

    def listens(self, broker_id: int, port: int) -> None:
        """Take note of a port of a broker."""
        self._openers.listens(broker_id, port)

    def opened(self, broker_id: int, transport: asyncio.BaseTransport) -> None:
        """Take note of a connection that a broker has opened."""
        self._openers.opened(broker_id, transport)

    async def until_reachable(self, broker_id: int, port: int) -> None:
        """Wait until a broker can connect to a port. Raises ConnectionRefusedError."""
        acceptor = self._openers.acceptor(port)
        while acceptor is not None:
            rules = [rule for rule in self._rules if rule.between(broker_id, acceptor) is not None]
            if any(rule.refuses_opener() for rule in rules):
                raise ConnectionRefusedError(errno.ECONNREFUSED, "a fault refuses connections")
            # With a limit, the accepting end holds the bytes of so many connections.
            if not any(rule.inbound.held or rule.outbound.held for rule in rules if rule.limit is None):
                return
            changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(changed)
            try:
                await changed
            finally:
                self._waiting.discard(changed)

    def _made(self, link: Link) -> bool:
        if self._is_refused(link):
            return False
        self._links[link] = None
        if len(self._links) > self._forget_at:
            self._forget_closed()
        link.begin(*self._conditions(link))
        return True

    def _forget_closed(self) -> None:
        """Drop the connections that are closed, each time that the number of those that are kept has doubled."""
        for link in [one for one in self._links if one.is_closed]:
            self._lost(link)
        self._forget_at = 2 * len(self._links) + _FIRST_FORGET

    def _identified(self, link: Link) -> None:
        if self._is_refused(link):
            link.reset()
        else:
            link.begin(*self._conditions(link))

    def _lost(self, link: Link) -> None:
        self._links.pop(link, None)
        self._ended(link)

    def _ended(self, link: Link) -> None:
        for rule in list(self._rules):
            rule.lost(link)


class FaultyNetwork:
    """The network of one broker. See `Network`."""

    def __init__(self, broker_id: int, faults: NetworkFaults, network: Network) -> None:
        self._broker_id = broker_id
        self._faults = faults
        self._network = network

    async def listen(
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        *,
        backlog: int = LISTEN_BACKLOG,
    ) -> Server:
        """See `Network.listen`."""
        server = await self._network.listen(
            lambda: self._faults.link(self._broker_id, protocol_factory()), host, port, backlog=backlog
        )
        self._faults.listens(self._broker_id, server.port)
        return server

    def accepts(self, port: int) -> Callable[[asyncio.BaseProtocol], asyncio.BaseProtocol]:
        """See `Network.accepts`."""
        self._faults.listens(self._broker_id, port)
        around = self._network.accepts(port)
        return lambda protocol: self._faults.link(self._broker_id, around(protocol))

    async def connect(
        self, protocol_factory: Callable[[], P], host: str, port: int, *, tls: ssl.SSLContext | None = None
    ) -> tuple[asyncio.Transport, P]:
        """See `Network.connect`. It waits while a fault cuts this broker off from the other."""
        await self._faults.until_reachable(self._broker_id, port)
        transport, protocol = await self._network.connect(protocol_factory, host, port, tls=tls)
        self._faults.opened(self._broker_id, transport)
        return transport, protocol
