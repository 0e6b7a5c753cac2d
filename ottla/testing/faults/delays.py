"""The verbs `delay_commits` and `delay_replication`: what consumers see late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ottla.testing.faults.active_fault import ActiveFault
from ottla.testing.faults.description import CountedFault, Fault, option
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.request_faults import PASSED, Answer, Incoming, Passed, Rule
from ottla.testing.faults.scene import BrokerScene
from ottla.testing.faults.verb import Applied
from protocol.api_keys import ApiKey
from protocol.message import Message


@dataclass(frozen=True, kw_only=True)
class DelayCommitsFault(CountedFault):
    """Let the coordinator take long for commits of offsets: nobody sees the offsets before, and the client waits."""

    delay_s: float = option("How many seconds. Other requests on the same connection wait, too.")
    group: str | None = option("Only commits of this group.", None)
    broker: int | None = option("Only commits to the broker with this id.", None)

    def __post_init__(self) -> None:
        """Check the options. Raises FaultError."""
        super().__post_init__()
        _check_delay(self.delay_s)


@dataclass(frozen=True, kw_only=True)
class DelayReplicationFault(Fault):
    """Let followers fetch late: the high watermark lags, and consumers see new records of replicated topics late."""

    delay_s: float = option(
        "How long each fetch of a follower waits. A record is visible after two fetches. Above"
        " replica.lag.time.max.ms, followers leave the ISR."
    )
    broker: int | None = option("Only fetches from the leaders on this broker.", None)
    follower: int | None = option("Only fetches by this broker.", None)

    def __post_init__(self) -> None:
        """Check the options. Raises FaultError."""
        super().__post_init__()
        _check_delay(self.delay_s)


def _check_delay(delay_s: float) -> None:
    if not delay_s > 0:
        raise FaultError(f"delay_s={delay_s:g}: must be above 0")


async def apply_delay_commits(scene: BrokerScene, description: DelayCommitsFault, fault: ActiveFault) -> Applied:
    """Hold OffsetCommit and TxnOffsetCommit back."""
    scene.require(description.broker)

    def rule(incoming: Incoming) -> Answer | Literal[Passed.PASSED]:
        if description.broker not in (None, incoming.broker_id):
            return PASSED
        if description.group not in (None, incoming.request.group_id) or not fault.take(waits=True):
            return PASSED
        return _late(incoming, fault, description.delay_s)

    return _ruled(scene, rule, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT)


async def apply_delay_replication(
    scene: BrokerScene, description: DelayReplicationFault, fault: ActiveFault
) -> Applied:
    """Hold the Fetch requests of followers back."""
    scene.require(description.broker, description.follower)

    def rule(incoming: Incoming) -> Answer | Literal[Passed.PASSED]:
        follower = _follower(incoming.request)
        if follower < 0 or description.follower not in (None, follower):
            return PASSED
        if description.broker not in (None, incoming.broker_id) or not fault.take(waits=True):
            return PASSED
        return _late(incoming, fault, description.delay_s)

    return _ruled(scene, rule, ApiKey.FETCH)


def _ruled(scene: BrokerScene, rule: Rule, *keys: ApiKey) -> Applied:
    for key in keys:
        scene.requests.add(key, rule)

    async def heal() -> None:
        for key in keys:
            scene.requests.remove(key, rule)

    return Applied({}, heal)


def _follower(request: Any) -> int:
    """Return the broker id of the replica that fetches; negative for a consumer."""
    replica_id: int = max(request.replica_id, request.replica_state.replica_id)
    return replica_id


async def _late(incoming: Incoming, fault: ActiveFault, delay_s: float) -> Message | None:
    await fault.wait(delay_s)
    answer = incoming.handle()
    return answer if answer is None or isinstance(answer, Message) else await answer
