"""Circles of transactions that depend on each other.

- wr: a transaction has read a value that another one wrote. A circle of these alone is G1c.
- ww: a transaction has written to a partition directly before another one. A circle of these is G0, which Kafka
  permits: writes of open transactions are interleaved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter

from support.transfers.anomaly import Anomaly, Kind, anomaly
from support.transfers.history import History, Partition, Transaction

Graph = Mapping[int, set[int]]
"""The transactions, by their place in the history, on which each one depends."""


def read_cycles(history: History, visible: Collection[int]) -> Iterator[Anomaly]:
    """G1c among committed transactions. visible: ids of transactions (`id`)."""
    writer = _writers(history)
    graph: dict[int, set[int]] = defaultdict(set)
    for number, transaction in enumerate(history.transactions):
        if id(transaction) in visible:
            sources = {writer[record.value] for record in transaction.inputs if record.value in writer}
            graph[number] |= {one for one in sources if one != number and id(history.transactions[one]) in visible}
    yield from _cycle(history, graph, Kind.G1C, "each has read what the one before it wrote")


def permitted(history: History) -> Iterator[Anomaly]:
    """G0 (one circle, if there is any) and int-send-skips."""
    writer = _writers(history)
    graph: dict[int, set[int]] = defaultdict(set)
    for partition, rest in history.rest.items():
        last: dict[int, int] = {}
        before: int | None = None
        offsets = sorted(rest.committed)
        for place, offset in enumerate(offsets):
            number = writer.get(rest.committed[offset])
            if number is None:
                continue
            if before is not None and before != number:
                graph[number].add(before)
                if number in last:
                    yield _send_skip(history.transactions[number], partition, offsets[last[number] + 1 : place])
            before, last[number] = number, place
    yield from _cycle(history, graph, Kind.G0, "each has written before the one before it")


def _send_skip(transaction: Transaction, partition: Partition, between: list[int]) -> Anomaly:
    return anomaly(
        Kind.INT_SEND_SKIP, "others have written between", partition, offsets=between, operations=[transaction]
    )


def _writers(history: History) -> dict[str, int]:
    return {write.value: number for number, each in enumerate(history.transactions) for write in each.writes}


def _cycle(history: History, graph: Graph, kind: Kind, why: str) -> Iterator[Anomaly]:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield anomaly(kind, why, operations=[history.transactions[number] for number in error.args[1]])
