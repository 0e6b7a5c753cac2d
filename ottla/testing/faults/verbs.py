"""The verbs: Python, the HTTP API, the command line and the documentation use this one table."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.testing.faults import brokers, connections
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
    Verb("refuse", connections.RefuseFault, connections.apply_refuse, connections.RefuseFault(broker=2, for_s=5.0)),
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
    Verb("kill", brokers.KillFault, brokers.apply_kill, brokers.KillFault(broker=2, for_s=5.0)),
    Verb("pause", brokers.PauseFault, brokers.apply_pause, brokers.PauseFault(broker=3)),
    Verb("start", brokers.StartAction, brokers.apply_start, brokers.StartAction(broker=2)),
    Verb("resume", brokers.ResumeAction, brokers.apply_resume, brokers.ResumeAction(broker=3)),
    Verb("restart", brokers.RestartAction, brokers.apply_restart, brokers.RestartAction(broker=1, kill=True)),
)

VERBS: Mapping[str, Verb] = {verb.name: verb for verb in _TABLE}
"""By name."""
