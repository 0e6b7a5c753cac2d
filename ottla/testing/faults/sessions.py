"""The verb `expire_session`."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.testing.faults.active_fault import ActiveFault
from ottla.testing.faults.description import Description, option
from ottla.testing.faults.scene import ClusterScene
from ottla.testing.faults.verb import Applied


@dataclass(frozen=True, kw_only=True)
class ExpireSessionAction(Description):
    """Let the registry session of a broker expire: others take over, and the broker registers again."""

    broker: int = option("The id of the broker.")


async def apply_expire_session(scene: ClusterScene, description: ExpireSessionAction, fault: ActiveFault) -> Applied:
    """End the session in the registry, as after a long pause of the broker."""
    session_id = await scene.ask(scene.member(description.broker).id, "expire_session")
    return Applied({"broker": description.broker, "session": session_id}, None)
