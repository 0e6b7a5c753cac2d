"""Where the replicas of new partitions go.

Kafka's spread: leaders go round the brokers from a random start, and the other replicas of a partition follow at a
distance that grows by one with every round, so that the load of a lost broker falls on many.
"""

from __future__ import annotations

import random
from collections.abc import Sequence


def assign_replicas(
    brokers: Sequence[int],
    partitions: int,
    replication_factor: int,
    *,
    rng: random.Random,
    first_partition: int = 0,
    start: int | None = None,
) -> dict[int, list[int]]:
    """Replicas of `partitions` new partitions, numbered from `first_partition`.

    `start` is the index of the broker that leads partition 0 (random where None: for a new topic).
    """
    count = len(brokers)
    if not 0 < replication_factor <= count:
        raise ValueError(f"replication factor {replication_factor} with {count} brokers")
    ordered = sorted(brokers)
    first = rng.randrange(count) if start is None else start
    distance = rng.randrange(count) if start is None else start
    assignment: dict[int, list[int]] = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % count == 0:
            distance += 1
        leader = (partition + first) % count
        replicas = [leader]
        for follower in range(replication_factor - 1):
            step = 1 + (distance + follower) % (count - 1)
            replicas.append((leader + step) % count)
        assignment[partition] = [ordered[index] for index in replicas]
    return assignment
