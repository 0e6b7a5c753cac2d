"""The verb `skew_clock`."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.testing.faults.active_fault import ActiveFault
from ottla.testing.faults.description import Fault, option
from ottla.testing.faults.scene import BrokerScene
from ottla.testing.faults.verb import Applied


@dataclass(frozen=True, kw_only=True)
class SkewClockFault(Fault):
    """Let the clock of brokers be wrong: timestamps that they set, retention, expiration of offsets and tokens.

    Waits and timeouts, for example of sessions and requests, are not affected.
    """

    offset_s: float = option("How many seconds the clock is ahead; a negative number lets it be behind.")
    broker: int | None = option("The id of the broker; without it, all brokers.", None)


async def apply_skew_clock(scene: BrokerScene, description: SkewClockFault, fault: ActiveFault) -> Applied:
    """Set clocks forward or back. Several faults add up."""
    ids = scene.chosen(description.broker)
    offset_ms = round(description.offset_s * 1000)
    for broker_id in ids:
        scene.clocks[broker_id].skew_ms += offset_ms

    async def heal() -> None:
        for broker_id in ids:
            scene.clocks[broker_id].skew_ms -= offset_ms

    return Applied({"brokers": ids}, heal)
