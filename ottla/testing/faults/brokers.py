"""The verbs for brokers: `stop`, `kill` and `pause`, their ends `start` and `resume`, and `restart`."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.testing.faults.active_fault import ActiveFault
from ottla.testing.faults.description import Description, Fault, option
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.scene import ClusterMember, ClusterScene
from ottla.testing.faults.verb import Applied
from ottla.testing.member import MemberState


@dataclass(frozen=True, kw_only=True)
class StopFault(Fault):
    """Stop a broker cleanly, as SIGTERM does. It hands over its partitions before. Healing starts it again."""

    broker: int = option("The id of the broker.")


@dataclass(frozen=True, kw_only=True)
class KillFault(Fault):
    """End a broker as SIGKILL does. Healing starts it again."""

    broker: int = option("The id of the broker.")


@dataclass(frozen=True, kw_only=True)
class PauseFault(Fault):
    """Pause a broker as SIGSTOP does: its connections stay open and nobody answers. Healing resumes it."""

    broker: int = option("The id of the broker.")


@dataclass(frozen=True, kw_only=True)
class StartAction(Description):
    """Start a broker that is stopped or killed, and wait until it serves clients."""

    broker: int = option("The id of the broker.")


@dataclass(frozen=True, kw_only=True)
class ResumeAction(Description):
    """Resume a paused broker, as SIGCONT does."""

    broker: int = option("The id of the broker.")


@dataclass(frozen=True, kw_only=True)
class RestartAction(Description):
    """Stop a broker and start it again, on its port and with its data."""

    broker: int = option("The id of the broker.")
    kill: bool = option("End it as SIGKILL does instead of a clean stop.", False)


async def apply_stop(scene: ClusterScene, description: StopFault, fault: ActiveFault) -> Applied:
    """Stop a broker."""
    member = _member(scene, description.broker, MemberState.RUNNING, MemberState.PAUSED)
    await member.stop()
    return _stopped(member)


async def apply_kill(scene: ClusterScene, description: KillFault, fault: ActiveFault) -> Applied:
    """Kill a broker."""
    member = _member(scene, description.broker, MemberState.RUNNING, MemberState.PAUSED)
    await member.kill()
    return _stopped(member)


async def apply_pause(scene: ClusterScene, description: PauseFault, fault: ActiveFault) -> Applied:
    """Pause a broker."""
    member = _member(scene, description.broker, MemberState.RUNNING)
    await member.pause()

    async def heal() -> None:
        if member.state is MemberState.PAUSED:
            await member.resume()

    return Applied({"broker": member.id}, heal, lambda: member.state is not MemberState.PAUSED)


async def apply_start(scene: ClusterScene, description: StartAction, fault: ActiveFault) -> Applied:
    """Start a broker."""
    member = _member(scene, description.broker, MemberState.STOPPED)
    await member.start()
    return Applied({"broker": member.id}, None)


async def apply_resume(scene: ClusterScene, description: ResumeAction, fault: ActiveFault) -> Applied:
    """Resume a broker."""
    member = _member(scene, description.broker, MemberState.PAUSED)
    await member.resume()
    return Applied({"broker": member.id}, None)


async def apply_restart(scene: ClusterScene, description: RestartAction, fault: ActiveFault) -> Applied:
    """Restart a broker."""
    member = _member(scene, description.broker, MemberState.RUNNING, MemberState.PAUSED)
    await (member.kill() if description.kill else member.stop())
    await member.start()
    return Applied({"broker": member.id}, None)


def _stopped(member: ClusterMember) -> Applied:
    async def heal() -> None:
        if member.state is MemberState.STOPPED:
            await member.start()

    return Applied({"broker": member.id}, heal, lambda: member.state is not MemberState.STOPPED)


def _member(scene: ClusterScene, broker_id: int, *states: MemberState) -> ClusterMember:
    """Return a broker in one of these states. Raises FaultError."""
    member = scene.member(broker_id)
    if member.state not in states:
        allowed = " or ".join(state.value for state in states)
        raise FaultError(f"broker={broker_id}: the broker is {member.state.value}; it must be {allowed}")
    return member
