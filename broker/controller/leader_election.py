"""Which replica leads a partition: pure decisions from the replicas, the ISR, and the replicas that can lead.

`replicas` is in order of preference. A decision consists of the new leader and the new ISR. None means that no replica
can lead, or that the election would change nothing. A partition without a leader keeps its ISR: these replicas have its
data.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Elected(NamedTuple):
    """A leader and its ISR."""

    leader: int
    isr: list[int]
    is_clean: bool = True
    """False if the leader was not in the ISR: records that only the others had are lost."""


def elect_for_new_partition(replicas: Sequence[int], live: Collection[int]) -> Elected | None:
    """Elect for a partition that never had a leader: the first live replica; the ISR is all live replicas."""
    alive = [replica for replica in replicas if replica in live]
    return Elected(alive[0], alive) if alive else None


def elect_after_loss(
    replicas: Sequence[int], isr: Sequence[int], live: Collection[int], *, unclean: bool
) -> Elected | None:
    """Elect after the loss of the leader: the first live replica in the ISR.

    If there is none and `unclean.leader.election.enable` allows it, the first live replica: records that only the lost
    replicas had are lost.
    """
    alive_isr = [replica for replica in isr if replica in live]
    for replica in replicas:
        if replica in alive_isr:
            return Elected(replica, alive_isr)
    if unclean:
        for replica in replicas:
            if replica in live:
                return Elected(replica, [replica], is_clean=False)
    return None


def elect_preferred(replicas: Sequence[int], isr: Sequence[int], live: Collection[int]) -> Elected | None:
    """Elect the preferred leader, if it is in sync and can lead."""
    preferred = replicas[0]
    return Elected(preferred, list(isr)) if preferred in live and preferred in isr else None


def elect_for_shutdown(
    replicas: Sequence[int], isr: Sequence[int], online: Collection[int], shutting_down: Collection[int]
) -> Elected | None:
    """Elect before a leader shuts down: the first in-sync replica that stays; the ISR loses those that shut down."""
    for replica in replicas:
        if replica in isr and replica in online and replica not in shutting_down:
            return Elected(replica, [one for one in isr if one not in shutting_down])
    return None


def elect_for_reassignment(target: Sequence[int], isr: Sequence[int], live: Collection[int]) -> Elected | None:
    """Elect after a reassignment: the first target replica that is in sync."""
    for replica in target:
        if replica in isr and replica in live:
            return Elected(replica, list(isr))
    return None
