"""The verbs `move_leader`, `move_coordinator` and `move_controller`. They are over at once, when all brokers know.

A leader is moved as Kafka's tools do it: the replicas get another order of preference, and the preferred one is
elected. So the leader stays there when brokers rebalance their leaders.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from ottla.testing.faults.active_fault import ActiveFault
from ottla.testing.faults.description import Description, option
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.scene import ClusterScene
from ottla.testing.faults.verb import Applied
from ottla.testing.member import MemberState

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


async def apply_move_leader(scene: ClusterScene, description: MoveLeaderAction, fault: ActiveFault) -> Applied:
    """Move the leader of a partition."""
    key = (description.topic, description.partition)
    source, target = await _move_leader(scene, key, description.to)
    return Applied({"from": source, "to": target}, None)


async def apply_move_coordinator(
    scene: ClusterScene, description: MoveCoordinatorAction, fault: ActiveFault
) -> Applied:
    """Move the leader of the partition with the group or the transactional id."""
    running = _running(scene)
    if not running:
        raise FaultError("no broker runs")
    topic, partition = await scene.ask(
        running[0], "coordinator_partition", description.group, description.transactional_id
    )
    source, target = await _move_leader(scene, (topic, partition), description.to)
    return Applied({"from": source, "to": target, "topic": topic, "partition": partition}, None)


async def apply_move_controller(scene: ClusterScene, description: MoveControllerAction, fault: ActiveFault) -> Applied:
    """Replace `/controller` in the session of the new controller, which then takes office."""
    source = await _controller(scene)
    if description.to is None:
        others = [one for one in _running(scene) if one != source]
        if not others:
            raise FaultError("move_controller: no other broker runs")
        target = others[0]
    else:
        target = description.to
        _require_running(scene, target)
    if target == source:
        raise FaultError(f"to={target}: the broker is the controller already")
    await _until(partial(scene.ask, target, "take_controller"), f"broker {target} is elected")
    await _until_known(scene, target, "the new controller", "controller_id")
    return Applied({"from": source, "to": target}, None)


async def _move_leader(scene: ClusterScene, key: tuple[str, int], to: int | None) -> tuple[int, int]:
    """Return the old and the new leader. Raises FaultError."""
    if to is not None:
        _require_running(scene, to)
    controller = await _controller(scene)
    source, target = await scene.ask(controller, "move_leader", *key, to)
    await _until_known(scene, target, "the new leader", "leader_of", *key)
    return source, target


# -- brokers -----------------------------------------------------------------------------------------------------------


def _running(scene: ClusterScene) -> list[int]:
    """Return the ids of the brokers that run, the lowest first."""
    return sorted(broker_id for broker_id, member in scene.members.items() if member.state is MemberState.RUNNING)


def _require_running(scene: ClusterScene, broker_id: int) -> None:
    scene.member(broker_id)
    if broker_id not in _running(scene):
        raise FaultError(f"to={broker_id}: the broker does not run")


async def _controller(scene: ClusterScene) -> int:
    """Return the controller that is in office; wait for an election."""
    found: list[int] = []

    async def look() -> bool:
        found.extend([one for one in _running(scene) if await _told(scene, one, "is_controller")])
        return bool(found)

    await _until(look, "there is a controller")
    return found[0]


async def _told(scene: ClusterScene, broker_id: int, operation: str, *arguments: str | int) -> Any:
    """Return what a broker answers; None if it has just ended."""
    try:
        return await scene.ask(broker_id, operation, *arguments)
    except FaultError:
        return None


async def _until_known(scene: ClusterScene, expected: int, what: str, operation: str, *arguments: str | int) -> None:
    async def check() -> bool:
        return all([await _told(scene, one, operation, *arguments) == expected for one in _running(scene)])

    await _until(check, f"all brokers know {what}")


async def _until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Poll. Raises FaultError if the timeout expires."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while not await holds():  # noqa: ASYNC110 - nothing announces it
                await asyncio.sleep(_POLL_S)
    except TimeoutError:
        raise FaultError(f"{TIMEOUT_S:g} seconds have passed before {what}") from None
