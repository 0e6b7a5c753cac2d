"""Read, process, write: each record below a group's offset was read by exactly one committed transaction.

A transaction's writes and its group's offsets are committed together, so in the end the offsets of a group say which
records were transferred, and the committed writes say by whom.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator

from support.transfers.anomaly import Anomaly, Kind, anomaly
from support.transfers.history import History, Partition, Record, Transaction


def check_transfers(history: History, visible: Collection[int]) -> Iterator[Anomaly]:
    """Repeated and lost transfers, transactions without their offsets. visible: ids of transactions (`id`)."""
    yield from _check_inputs(history)
    readers: dict[tuple[str, Record], list[Transaction]] = defaultdict(list)
    sources: set[tuple[str, Partition]] = set(history.offsets)
    for transaction in history.transactions:
        group = transaction.group
        if group is None or id(transaction) not in visible:
            continue
        for record in transaction.inputs:
            readers[group, record].append(transaction)
        for partition, offset in transaction.offsets.items():
            sources.add((group, partition))
            reached = history.offsets.get((group, partition), 0)
            if reached < offset:
                yield anomaly(
                    Kind.TORN_TRANSACTION,
                    f"its writes are committed, its offset {offset} is not: {group} is at {reached}",
                    partition,
                    offsets=[reached, offset],
                    operations=[transaction, group],
                )
    for (group, record), by in readers.items():
        if len(by) > 1:
            yield anomaly(
                Kind.REPEATED_TRANSFER,
                f"{group} has transferred it {len(by)} times",
                record.partition,
                offsets=[record.offset],
                values=[record.value],
                operations=by,
            )
    for group, partition in sources:
        reached = history.offsets.get((group, partition), 0)
        for offset, value in history.rest[partition].committed.items():
            if offset < reached and (group, Record(partition, offset, value)) not in readers:
                yield anomaly(
                    Kind.LOST_TRANSFER,
                    f"{group} is at {reached}, and nothing that is committed comes from it",
                    partition,
                    offsets=[offset],
                    values=[value],
                    operations=[group],
                )


def _check_inputs(history: History) -> Iterator[Anomaly]:
    """What a transaction has read of one partition is without gaps and in order."""
    committed = {partition: sorted(rest.committed) for partition, rest in history.rest.items()}
    for transaction in history.transactions:
        last: dict[Partition, int] = {}
        for partition, offset, value in transaction.inputs:
            before = last.get(partition)
            last[partition] = offset
            if before is None:
                continue
            if offset <= before:
                kind, why, offsets = Kind.INT_NONMONOTONIC_POLL, f"it had read {before}", [offset]
            else:
                known = committed[partition]
                offsets = known[bisect_left(known, before + 1) : bisect_left(known, offset)]
                kind, why = Kind.INT_POLL_SKIP, f"from {before} to {offset}"
            if offsets:
                yield anomaly(kind, why, partition, offsets=offsets, values=[value], operations=[transaction])
