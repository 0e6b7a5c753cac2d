"""The verbs for connections: `cut`, `refuse`, `delay`, `throttle` and `blackhole`.

Without other options they are about the connections of all clients. `broker`, `client_id` and `peers` choose others;
connections between brokers are meant only with `peers` or `peer`, or by the client id that a broker uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ottla.testing.faults.active_fault import ActiveFault
from ottla.testing.faults.description import CountedFault, Description, check_count, option
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.flow import NORMAL, Conditions
from ottla.testing.faults.network import Rule
from ottla.testing.faults.scene import BrokerScene
from ottla.testing.faults.verb import Applied


def _check_selection(described: Any) -> None:
    """Raise FaultError if the options for the connections contradict each other."""
    if described.peer is not None and described.broker is None:
        raise FaultError(f"peer={described.peer}: needs broker, the other end of the connections")
    if described.peer is not None and described.peer == described.broker:
        raise FaultError(f"peer={described.peer}: must not be the same as broker")
    if described.client_id is not None and (described.peers or described.peer is not None):
        raise FaultError("client_id excludes peers and peer")


@dataclass(frozen=True, kw_only=True)
class CutFault(Description):
    """Reset connections that exist; clients may open new ones."""

    broker: int | None = option("Only the connections of the broker with this id.", None)
    client_id: str | None = option("Only connections whose first request has this client id.", None)
    peers: bool = option("Connections between brokers instead of those of clients.", False)
    peer: int | None = option("Only the connections between this broker and `broker`.", None)
    count: int | None = option("At most this many connections, the oldest first.", None)

    def __post_init__(self) -> None:
        """Check the options. Raises FaultError."""
        super().__post_init__()
        _check_selection(self)
        check_count(self.count)


@dataclass(frozen=True, kw_only=True)
class ConnectionFault(CountedFault):
    """The options that lasting faults of connections have in common."""

    broker: int | None = option("Only the connections of the broker with this id.", None)
    client_id: str | None = option("Only connections whose first request has this client id.", None)
    peers: bool = option("Connections between brokers instead of those of clients.", False)
    peer: int | None = option("Only the connections between this broker and `broker`.", None)

    def __post_init__(self) -> None:
        """Check the options. Raises FaultError."""
        super().__post_init__()
        _check_selection(self)


@dataclass(frozen=True, kw_only=True)
class RefuseFault(ConnectionFault):
    """Refuse new connections, and reset those that exist."""

    count: int | None = option("Heal the fault when it has refused or reset this many connections.", None)
    keep: bool = option("Keep the connections that exist.", False)


@dataclass(frozen=True, kw_only=True)
class DirectedFault(ConnectionFault):
    """The options of faults that can be limited to one direction."""

    count: int | None = option("Only this many connections. The fault is healed when they are closed.", None)
    direction: Literal["both", "to", "from"] = option(
        "Only the bytes `to` the broker, or only those `from` it.", "both"
    )

    def __post_init__(self) -> None:
        """Check the options. Raises FaultError."""
        super().__post_init__()
        if self.direction != "both" and (self.peers or self.peer is not None) and self.broker is None:
            raise FaultError(f"direction={self.direction}: needs broker between brokers")


@dataclass(frozen=True, kw_only=True)
class DelayFault(DirectedFault):
    """Deliver the bytes of connections late."""

    delay_s: float = option("How late, in seconds.")

    def __post_init__(self) -> None:
        """Check the options. Raises FaultError."""
        super().__post_init__()
        if not self.delay_s > 0:
            raise FaultError(f"delay_s={self.delay_s:g}: must be above 0")


@dataclass(frozen=True, kw_only=True)
class ThrottleFault(DirectedFault):
    """Deliver the bytes of connections slowly."""

    bytes_per_s: float = option("The rate of each connection and direction, in bytes per second.")

    def __post_init__(self) -> None:
        """Check the options. Raises FaultError."""
        super().__post_init__()
        if not self.bytes_per_s > 0:
            raise FaultError(f"bytes_per_s={self.bytes_per_s:g}: must be above 0")


@dataclass(frozen=True, kw_only=True)
class BlackholeFault(DirectedFault):
    """Deliver no bytes of connections, which stay open, until the fault is healed; then deliver all."""


async def apply_cut(scene: BrokerScene, description: CutFault, fault: ActiveFault) -> Applied:
    """Reset the connections of the description."""
    rule = _rule(scene, description, refuses=True, limit=_limit(description, fault))
    return Applied({"connections": _reset(scene, rule)}, None)


async def apply_refuse(scene: BrokerScene, description: RefuseFault, fault: ActiveFault) -> Applied:
    """Refuse new connections of the description."""
    rule = _rule(scene, description, refuses=True, limit=_limit(description, fault))
    applied = _lasting(scene, rule)
    return Applied({"connections": 0 if description.keep else _reset(scene, rule)}, applied.heal)


async def apply_delay(scene: BrokerScene, description: DelayFault, fault: ActiveFault) -> Applied:
    """Delay the bytes of the connections of the description."""
    return _directed(scene, description, fault, Conditions(delay_s=description.delay_s))


async def apply_throttle(scene: BrokerScene, description: ThrottleFault, fault: ActiveFault) -> Applied:
    """Limit the rate of the connections of the description."""
    return _directed(scene, description, fault, Conditions(bytes_per_s=description.bytes_per_s))


async def apply_blackhole(scene: BrokerScene, description: BlackholeFault, fault: ActiveFault) -> Applied:
    """Hold the bytes of the connections of the description."""
    return _directed(scene, description, fault, Conditions(held=True))


def _rule(scene: BrokerScene, described: CutFault | ConnectionFault, **consequences: Any) -> Rule:
    """Return the rule for the connections of a description. Raises FaultError for an unknown broker."""
    scene.require(described.broker, described.peer)
    return Rule(
        broker=described.broker,
        client_id=described.client_id,
        peers=described.peers or described.peer is not None,
        peer=described.peer,
        **consequences,
    )


def _limit(described: CutFault | ConnectionFault, fault: ActiveFault) -> ActiveFault | None:
    """Return what limits the number of connections that a rule meets."""
    return None if described.count is None else fault


def _directed(scene: BrokerScene, described: DirectedFault, fault: ActiveFault, conditions: Conditions) -> Applied:
    inbound = NORMAL if described.direction == "from" else conditions
    outbound = NORMAL if described.direction == "to" else conditions
    rule = _rule(scene, described, inbound=inbound, outbound=outbound, limit=_limit(described, fault))
    return _lasting(scene, rule)


def _lasting(scene: BrokerScene, rule: Rule) -> Applied:
    network = scene.network
    network.add(rule)

    async def heal() -> None:
        network.remove(rule)

    return Applied({"connections": 0 if rule.refuses else len(network.links(rule))}, heal)


def _reset(scene: BrokerScene, rule: Rule) -> int:
    links = scene.network.links(rule)
    for link in links:
        link.reset()
    return len(links)
