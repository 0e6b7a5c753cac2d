"""The verbs: Python, the HTTP API, the command line and the documentation use this one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.testing.faults import batches, brokers, clock_verbs, connections, delays, disks, moves, sessions
from ottla.testing.faults.answer import AnswerFault, apply_answer
from ottla.testing.faults.scene import ClusterScene
from ottla.testing.faults.verb import Verb


def _one_or_all(scene: ClusterScene, description: Any) -> list[int]:
    """Return the broker that a description names, or all of them."""
    if (follower := getattr(description, "follower", None)) is not None:
        scene.member(follower)
    return list(scene.members) if description.broker is None else [scene.member(description.broker).id]


def _ends(scene: ClusterScene, description: Any) -> list[int]:
    """Return the brokers at the ends of the connections of a description. Those between brokers have two ends."""
    named = [one for one in (description.broker, description.peer) if one is not None]
    for one in named:
        scene.member(one)
    return list(scene.members) if description.peers or not named else named


_TABLE = (
    Verb(
        "answer",
        AnswerFault,
        apply_answer,
        AnswerFault(api="Produce", error="NOT_LEADER_OR_FOLLOWER", topic="orders", count=3),
        _one_or_all,
    ),
    Verb("cut", connections.CutFault, connections.apply_cut, connections.CutFault(client_id="billing"), _ends),
    Verb(
        "refuse",
        connections.RefuseFault,
        connections.apply_refuse,
        connections.RefuseFault(broker=2, for_s=30.0),
        _ends,
    ),
    Verb(
        "delay", connections.DelayFault, connections.apply_delay, connections.DelayFault(delay_s=0.2, broker=1), _ends
    ),
    Verb(
        "throttle",
        connections.ThrottleFault,
        connections.apply_throttle,
        connections.ThrottleFault(bytes_per_s=10_000.0, client_id="billing", direction="from"),
        _ends,
    ),
    Verb(
        "blackhole",
        connections.BlackholeFault,
        connections.apply_blackhole,
        connections.BlackholeFault(broker=1, peer=2),
        _ends,
    ),
    Verb("stop", brokers.StopFault, brokers.apply_stop, brokers.StopFault(broker=2)),
    Verb("kill", brokers.KillFault, brokers.apply_kill, brokers.KillFault(broker=2, for_s=30.0)),
    Verb("pause", brokers.PauseFault, brokers.apply_pause, brokers.PauseFault(broker=3)),
    Verb("start", brokers.StartAction, brokers.apply_start, brokers.StartAction(broker=2)),
    Verb("resume", brokers.ResumeAction, brokers.apply_resume, brokers.ResumeAction(broker=3)),
    Verb("restart", brokers.RestartAction, brokers.apply_restart, brokers.RestartAction(broker=1, kill=True)),
    Verb(
        "fill_disk",
        disks.FillDiskFault,
        disks.apply_fill_disk,
        disks.FillDiskFault(broker=2, room_bytes=1_000_000),
        disks.brokers_with,
    ),
    Verb(
        "fail_disk",
        disks.FailDiskFault,
        disks.apply_fail_disk,
        disks.FailDiskFault(operation="fsync", broker=2, count=1),
        disks.brokers_with,
        disks.recover,
    ),
    Verb(
        "slow_disk",
        disks.SlowDiskFault,
        disks.apply_slow_disk,
        disks.SlowDiskFault(delay_s=0.5, broker=3),
        disks.brokers_with,
    ),
    Verb(
        "corrupt",
        batches.CorruptFault,
        batches.apply_corrupt,
        batches.CorruptFault(topic="payments", offset=0, broker=1),
    ),
    Verb(
        "truncate",
        batches.TruncateAction,
        batches.apply_truncate,
        batches.TruncateAction(topic="refunds", offset=0, broker=3),
    ),
    Verb(
        "skew_clock",
        clock_verbs.SkewClockFault,
        clock_verbs.apply_skew_clock,
        clock_verbs.SkewClockFault(offset_s=-3600.0, broker=1),
        _one_or_all,
    ),
    Verb(
        "delay_commits",
        delays.DelayCommitsFault,
        delays.apply_delay_commits,
        delays.DelayCommitsFault(delay_s=2.0, group="billing", count=1),
        _one_or_all,
    ),
    Verb(
        "delay_replication",
        delays.DelayReplicationFault,
        delays.apply_delay_replication,
        delays.DelayReplicationFault(delay_s=0.5, follower=2),
        _one_or_all,
    ),
    Verb(
        "expire_session",
        sessions.ExpireSessionAction,
        sessions.apply_expire_session,
        sessions.ExpireSessionAction(broker=2),
    ),
    Verb("move_leader", moves.MoveLeaderAction, moves.apply_move_leader, moves.MoveLeaderAction(topic="orders")),
    Verb(
        "move_coordinator",
        moves.MoveCoordinatorAction,
        moves.apply_move_coordinator,
        moves.MoveCoordinatorAction(group="billing"),
    ),
    Verb("move_controller", moves.MoveControllerAction, moves.apply_move_controller, moves.MoveControllerAction()),
)

VERBS: Mapping[str, Verb] = {verb.name: verb for verb in _TABLE}
"""By name."""
