"""The verbs `move_leader`, `move_coordinator` and `move_controller`. They are over at once, when all brokers know.

A leader is moved as Kafka's tools do it: the replicas get another order of preference, and the preferred one is
elected. So the leader stays there when brokers rebalance their leaders.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from broker.broker import Broker
from broker.controller.controller import Controller
from broker.controller.elections import ElectionType
from broker.errors import RequestError
from broker.services import Services
from ottla.testing.faults.active_fault import ActiveFault
from ottla.testing.faults.description import Description, option
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.scene import Scene
from ottla.testing.faults.verb import Applied
from ottla.testing.member import MemberState
from protocol.error_codes import ErrorCode
from registry.errors import RegistryError
from registry.interface import Check, Create, Delete, Op, Set
from registry.znodes.brokers import BrokerZnode
from registry.znodes.controller import ControllerEpochZnode, ControllerZnode

TIMEOUT_S: Final = 30.0
"""How long brokers may take to elect and to learn of it."""
_POLL_S: Final = 0.01
_TO: Final = "The id of the broker that takes over; without it, another one that can."


@dataclass(frozen=True, kw_only=True)
class MoveLeaderAction(Description):
    """Elect another in-sync replica as the leader of a partition."""

    topic: str = option("The topic.")
    partition: int = option("The partition.", 0)
    to: int | None = option(_TO, None)


@dataclass(frozen=True, kw_only=True)
class MoveCoordinatorAction(Description):
    """Let another broker be the coordinator of a group or a transactional id, and of those on the same partition."""

    group: str | None = option("The group.", None)
    transactional_id: str | None = option("The transactional id.", None)
    to: int | None = option(_TO, None)

    def __post_init__(self) -> None:
        """Check the options. Raises FaultError."""
        if (self.group is None) == (self.transactional_id is None):
            raise FaultError("move_coordinator needs one of group and transactional_id")


@dataclass(frozen=True, kw_only=True)
class MoveControllerAction(Description):
    """Let another broker be the controller."""

    to: int | None = option(_TO, None)


async def apply_move_leader(scene: Scene, description: MoveLeaderAction, fault: ActiveFault) -> Applied:
    """Move the leader of a partition."""
    key = (description.topic, description.partition)
    source, target = await _move_leader(scene, key, description.to)
    return Applied({"from": source, "to": target}, None)


async def apply_move_coordinator(scene: Scene, description: MoveCoordinatorAction, fault: ActiveFault) -> Applied:
    """Move the leader of the partition with the group or the transactional id."""
    coordination = _services(_some_broker(scene)).coordination
    if description.group is not None:
        log, name = coordination.group_log, description.group
    else:
        assert description.transactional_id is not None  # see __post_init__
        log, name = coordination.transaction_log, description.transactional_id
    await log.ensure_exists()
    key = (log.topic, log.partition_for(name))
    source, target = await _move_leader(scene, key, description.to)
    return Applied({"from": source, "to": target, "topic": key[0], "partition": key[1]}, None)


async def apply_move_controller(scene: Scene, description: MoveControllerAction, fault: ActiveFault) -> Applied:
    """Replace `/controller` in the session of the new controller, which then takes office."""
    source = (await _controller(scene)).broker_id
    if description.to is None:
        others = [one for one in _running(scene) if one != source]
        if not others:
            raise FaultError("move_controller: no other broker runs")
        target = min(others)
    else:
        target = description.to
        _require_running(scene, target)
    if target == source:
        raise FaultError(f"to={target}: the broker is the controller already")
    await _until(partial(_take_controller, scene, target), f"broker {target} is elected")
    await _until_known(scene, lambda broker: broker.metadata.snapshot.controller_id == target, "the new controller")
    return Applied({"from": source, "to": target}, None)


async def _take_controller(scene: Scene, target: int) -> bool:
    """Return False if it must be tried again."""
    services = _services(scene.running(target))
    registry = services.registry_access.registry
    path = ControllerEpochZnode.path()
    znode = ControllerZnode(broker=target, timestamp_ms=services.now_ms())
    try:
        _, registered = await registry.get(BrokerZnode.path(target))
        data, stat = await registry.get(path)
        epoch = ControllerEpochZnode.decode(data, path).epoch
        steps: list[Op] = [
            Check(BrokerZnode.path(target), registered.version),  # a controller must be registered
            Delete(ControllerZnode.path()),
            Create(ControllerZnode.path(), znode.encode(), ephemeral=True),
            Set(path, ControllerEpochZnode(epoch=epoch + 1).encode(), stat.version),
        ]
        await registry.multi(steps)
    except RegistryError:  # another one was elected, or the session has expired
        return False
    return True


async def _move_leader(scene: Scene, key: tuple[str, int], to: int | None) -> tuple[int, int]:
    """Return the old and the new leader. Raises FaultError."""
    if to is not None:
        _require_running(scene, to)
    controller = await _controller(scene)
    try:
        source, target = await controller.decide("move_leader", partial(_elect, controller, key, to))
    except RequestError as error:
        raise FaultError(f"{key[0]}-{key[1]}: {error}") from None

    def knows(broker: Broker) -> bool:
        state = broker.metadata.snapshot.partition(*key)
        return state is not None and state.leader == target

    await _until_known(scene, knows, "the new leader")
    return source, target


async def _elect(controller: Controller, key: tuple[str, int], to: int | None) -> tuple[int, int]:
    """Put the new leader first, and elect it. Return the old and the new leader."""
    context = controller.context
    if not context.partition_exists(key) or key not in context.leaderships:
        raise FaultError(f"{key[0]}-{key[1]}: the partition does not exist")
    state = context.leaderships[key].state
    replicas = list(context.replicas(key))
    able = [one for one in replicas if one in state.isr and one in context.brokers]
    if to is None:
        others = [one for one in able if one != state.leader]
        if not others:
            raise FaultError(f"{key[0]}-{key[1]}: no other replica is in sync; the replicas in sync are {state.isr}")
        target = others[0]
    elif to not in replicas:
        raise FaultError(f"to={to}: the broker is no replica of {key[0]}-{key[1]}; the replicas are {replicas}")
    elif to not in able:
        raise FaultError(f"to={to}: the replica is not in sync; the replicas in sync are {state.isr}")
    else:
        target = to
    if target == state.leader:
        raise FaultError(f"to={target}: the broker is the leader of {key[0]}-{key[1]} already")
    await controller.reassignments.submit(key, [target, *(one for one in replicas if one != target)])
    code, text = (await controller.elections.elect([key], ElectionType.PREFERRED))[key]
    if code is not ErrorCode.NONE:
        raise FaultError(f"{key[0]}-{key[1]}: {text or code.name}")
    return state.leader, target


# -- brokers -----------------------------------------------------------------------------------------------------------


def _running(scene: Scene) -> dict[int, Broker]:
    return {
        broker_id: member.broker
        for broker_id, member in scene.members.items()
        if member.state is MemberState.RUNNING and member.broker is not None
    }


def _require_running(scene: Scene, broker_id: int) -> None:
    scene.member(broker_id)
    if broker_id not in _running(scene):
        raise FaultError(f"to={broker_id}: the broker does not run")


def _some_broker(scene: Scene) -> Broker:
    running = _running(scene)
    if not running:
        raise FaultError("no broker runs")
    return running[min(running)]


def _services(broker: Broker) -> Services:
    if broker.services is None:
        raise FaultError("the broker has not started yet")
    return broker.services


async def _controller(scene: Scene) -> Controller:
    """Return the controller that is in office; wait for an election."""
    found: list[Controller] = []

    async def look() -> bool:
        candidates = [broker.controller for broker in _running(scene).values()]
        found.extend(one for one in candidates if one is not None and one.is_active)
        return bool(found)

    await _until(look, "there is a controller")
    return found[0]


async def _until_known(scene: Scene, knows: Callable[[Broker], bool], what: str) -> None:
    async def check() -> bool:
        return all(knows(broker) for broker in _running(scene).values())

    await _until(check, f"all brokers know {what}")


async def _until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Poll. Raises FaultError if the timeout expires."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while not await holds():  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise FaultError(f"{TIMEOUT_S:g} seconds have passed before {what}") from None
