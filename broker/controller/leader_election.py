"""Who leads a partition: pure decisions from replicas, in-sync replicas and live brokers.

`replicas` is in order of preference. A decision is the new leader and the new ISR; None means that nobody can lead:
the partition goes without a leader and its ISR stays what it was, since those are the ones who have its data.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

NO_LEADER = -1


class Elected(NamedTuple):
    """A leader, and who is in sync with it from now on."""

    leader: int
    isr: list[int]


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
                return Elected(replica, [replica])
    return None
