"""The verb `expire_session`."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.testing.faults.active_fault import ActiveFault
from ottla.testing.faults.description import Description, option
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.scene import Scene
from ottla.testing.faults.verb import Applied


@dataclass(frozen=True, kw_only=True)
class ExpireSessionAction(Description):
    """Let the registry session of a broker expire: others take over, and the broker registers again."""

    broker: int = option("The id of the broker.")


async def apply_expire_session(scene: Scene, description: ExpireSessionAction, fault: ActiveFault) -> Applied:
    """End the session in the registry, as after a long pause of the broker."""
    scene.running(description.broker)
    session = scene.member(description.broker).session
    if session is None:
        raise FaultError(
            f"broker={description.broker}: only sessions of the embedded registry can be expired;"
            " this broker uses ZooKeeper, or does not run"
        )
    session_id = session.session_id
    await session.expire()
    return Applied({"broker": description.broker, "session": session_id}, None)
