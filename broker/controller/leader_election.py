"""Who leads a partition: pure decisions from replicas, in-sync replicas and the replicas that can lead.

`replicas` is in order of preference. A decision is the new leader and the new ISR; None means that nobody can lead, or
that nothing would be gained: a partition without a leader keeps its ISR, since those are the ones who have its data.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

NO_LEADER = -1


class Elected(NamedTuple):
    """A leader, and who is in sync with it from now on."""

    leader: int
    isr: list[int]
    is_clean: bool = True
    """False where the leader was not in sync: what only the others had is lost."""


def elect_for_new_partition(replicas: Sequence[int], live: Collection[int]) -> Elected | None:
    """A partition that never had a leader: the first live replica, in sync with every live one."""
    alive = [replica for replica in replicas if replica in live]
    return Elected(alive[0], alive) if alive else None


def elect_after_loss(
    replicas: Sequence[int], isr: Sequence[int], live: Collection[int], *, unclean: bool
) -> Elected | None:
    """The leader is gone: the first live replica that is in sync.

    Where none is and `unclean.leader.election.enable` allows it, the first live replica: what only the lost ones had
    is lost.
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
    """The preferred leader, where it is in sync and can lead."""
    preferred = replicas[0]
    return Elected(preferred, list(isr)) if preferred in live and preferred in isr else None


def elect_for_shutdown(
    replicas: Sequence[int], isr: Sequence[int], online: Collection[int], shutting_down: Collection[int]
) -> Elected | None:
    """The leader is about to go: the first in-sync replica that is not, and nobody in sync who is."""
    for replica in replicas:
        if replica in isr and replica in online and replica not in shutting_down:
            return Elected(replica, [one for one in isr if one not in shutting_down])
    return None


def elect_for_reassignment(target: Sequence[int], isr: Sequence[int], live: Collection[int]) -> Elected | None:
    """The replicas have changed: the first of the new ones that is in sync."""
    for replica in target:
        if replica in isr and replica in live:
            return Elected(replica, list(isr))
    return None
