"""The verbs: Python, the HTTP API, the command line and the documentation use this one table."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.testing.faults import brokers, connections
from ottla.testing.faults.answer import AnswerFault, apply_answer
from ottla.testing.faults.verb import Verb

_TABLE = (
    Verb("answer", AnswerFault, apply_answer),
    Verb("cut", connections.CutFault, connections.apply_cut),
    Verb("refuse", connections.RefuseFault, connections.apply_refuse),
    Verb("delay", connections.DelayFault, connections.apply_delay),
    Verb("throttle", connections.ThrottleFault, connections.apply_throttle),
    Verb("blackhole", connections.BlackholeFault, connections.apply_blackhole),
    Verb("stop", brokers.StopFault, brokers.apply_stop),
    Verb("kill", brokers.KillFault, brokers.apply_kill),
    Verb("pause", brokers.PauseFault, brokers.apply_pause),
    Verb("start", brokers.StartAction, brokers.apply_start),
    Verb("resume", brokers.ResumeAction, brokers.apply_resume),
    Verb("restart", brokers.RestartAction, brokers.apply_restart),
)

VERBS: Mapping[str, Verb] = {verb.name: verb for verb in _TABLE}
"""By name."""
