"""Groups without transactions: an acknowledged commit stays.

Members begin at the group's offset and commit what they have polled, and a member that has lost its partitions cannot
commit: the offsets of a group never decrease.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate

from support.transfers.anomaly import Anomaly, Kind, anomaly
from support.transfers.history import History, Partition


def check_commits(history: History) -> Iterator[Anomaly]:
    """Answers of the coordinator that are behind a commit that was acknowledged before it was asked."""
    acknowledged: dict[tuple[str, Partition], list[tuple[int, int]]] = defaultdict(list)
    for group, partition, offset, when_ns in history.commits:
        acknowledged[group, partition].append((when_ns, offset))
    times, highest = {}, {}
    for where, commits in acknowledged.items():
        commits.sort()
        times[where] = [when_ns for when_ns, _ in commits]
        highest[where] = list(accumulate((offset for _, offset in commits), max))
    for group, partition, offset, asked_ns in history.positions:
        before = bisect_left(times.get((group, partition), []), asked_ns)
        if before and offset < highest[group, partition][before - 1]:
            yield anomaly(
                Kind.LOST_COMMIT,
                f"{group} had committed {highest[group, partition][before - 1]}",
                partition,
                offsets=[offset],
                operations=[group],
            )
