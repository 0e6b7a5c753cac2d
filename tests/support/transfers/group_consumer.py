"""The consumer of a group: of either protocol, with short timeouts, and without commits of its own."""

from __future__ import annotations

from confluent_kafka import Consumer

from support.pulse import Pulse
from support.transfers.client import FAST, Plan

SESSION_MS = 1000


def group_consumer(plan: Plan, reset: str, pulse: Pulse) -> Consumer:
    """Open a consumer of the plan's group. reset: auto.offset.reset."""
    return Consumer(
        {
            "bootstrap.servers": plan.servers,
            "group.id": plan.group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": reset,
            "fetch.wait.max.ms": 50,
            "check.crcs": True,
            **_of_protocol(plan.protocol),
            **FAST,
            **pulse.settings,
        }
    )


def _of_protocol(protocol: str) -> dict[str, str | int]:
    """The settings of a group's protocol; in the new one, the broker sets the timeouts."""
    if protocol == "consumer":
        return {"group.protocol": protocol}
    return {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": SESSION_MS // 5}
