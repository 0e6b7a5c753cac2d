"""The verbs: Python, the HTTP API, the command line and the documentation use this one table."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.testing.faults import batches, brokers, clock_verbs, connections, delays, disks, moves, sessions
from ottla.testing.faults.answer import AnswerFault, apply_answer
from ottla.testing.faults.verb import Verb

_TABLE = (
    Verb(
        "answer",
        AnswerFault,
        apply_answer,
        AnswerFault(api="Produce", error="NOT_LEADER_OR_FOLLOWER", topic="orders", count=3),
    ),
    Verb("cut", connections.CutFault, connections.apply_cut, connections.CutFault(client_id="billing")),
    Verb("refuse", connections.RefuseFault, connections.apply_refuse, connections.RefuseFault(broker=2, for_s=30.0)),
    Verb("delay", connections.DelayFault, connections.apply_delay, connections.DelayFault(delay_s=0.2, broker=1)),
    Verb(
        "throttle",
        connections.ThrottleFault,
        connections.apply_throttle,
        connections.ThrottleFault(bytes_per_s=10_000.0, client_id="billing", direction="from"),
    ),
    Verb(
        "blackhole",
        connections.BlackholeFault,
        connections.apply_blackhole,
        connections.BlackholeFault(broker=1, peer=2),
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
    ),
    Verb(
        "fail_disk",
        disks.FailDiskFault,
        disks.apply_fail_disk,
        disks.FailDiskFault(operation="fsync", broker=2, count=1),
    ),
    Verb("slow_disk", disks.SlowDiskFault, disks.apply_slow_disk, disks.SlowDiskFault(delay_s=0.5, broker=3)),
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
    ),
    Verb(
        "delay_commits",
        delays.DelayCommitsFault,
        delays.apply_delay_commits,
        delays.DelayCommitsFault(delay_s=2.0, group="billing", count=1),
    ),
    Verb(
        "delay_replication",
        delays.DelayReplicationFault,
        delays.apply_delay_replication,
        delays.DelayReplicationFault(delay_s=0.5, follower=2),
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
