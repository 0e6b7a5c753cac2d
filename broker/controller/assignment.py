"""Which brokers get the replicas of new partitions.

The distribution is Kafka's. Leaders are assigned round-robin from a random start. The other replicas of a partition
follow at a distance that grows by one with every round, so that the load of a failed broker goes to many others.

If brokers have racks (KIP-36), the round goes rack by rack, and no rack gets a second replica of a partition before
every rack has one. That needs the rack of every broker: if one has none, racks are ignored (Kafka then refuses to
create topics).
"""

from __future__ import annotations

import random
from collections.abc import Mapping


def assign_replicas(
    racks: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    *,
    rng: random.Random,
    first_partition: int = 0,
    start: int | None = None,
) -> dict[int, list[int]]:
    """Return the replicas of `partitions` new partitions, numbered from `first_partition`.

    racks: of the live brokers. start: the index of the broker that leads partition 0; None: random, for a new topic.
    """
    count = len(racks)
    if not 0 < replication_factor <= count:
        raise ValueError(f"replication factor {replication_factor} with {count} brokers")
    rack_of = {broker: rack for broker, rack in racks.items() if rack is not None}
    if len(rack_of) < count:
        rack_of = dict.fromkeys(racks, "")
    ordered = _rack_by_rack(rack_of)
    first = rng.randrange(count) if start is None else start
    distance = rng.randrange(count) if start is None else start
    assignment: dict[int, list[int]] = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % count == 0:
            distance += 1
        assignment[partition] = _replicas(ordered, rack_of, (partition + first) % count, distance, replication_factor)
    return assignment


def _rack_by_rack(rack_of: Mapping[int, str]) -> list[int]:
    """Return all brokers: the first of each rack, then the second of each, and so on."""
    of_rack: dict[str, list[int]] = {}
    for broker in sorted(rack_of):
        of_rack.setdefault(rack_of[broker], []).append(broker)
    rounds = max(len(brokers) for brokers in of_rack.values())
    return [of_rack[rack][turn] for turn in range(rounds) for rack in sorted(of_rack) if turn < len(of_rack[rack])]


def _replicas(
    ordered: list[int], rack_of: Mapping[int, str], leader: int, distance: int, replication_factor: int
) -> list[int]:
    """Return the replicas of one partition. leader: an index into `ordered`."""
    count = len(ordered)
    rack_count = len(set(rack_of.values()))
    replicas = [ordered[leader]]
    racks = {rack_of[ordered[leader]]}
    tried = 0
    while len(replicas) < replication_factor:
        step = 1 + (distance * rack_count + tried) % (count - 1)
        broker = ordered[(leader + step) % count]
        tried += 1
        if broker not in replicas and (rack_of[broker] not in racks or len(racks) == rack_count):
            replicas.append(broker)
            racks.add(rack_of[broker])
    return replicas
