"""Checks a history against the guarantees of Kafka, and names the anomalies. It has no side effects.

The anomalies, after those of Jepsen's workload for Kafka (analyses of Redpanda 21.10 and Bufstream 0.1):

- **lost write**: a write of a committed transaction is not among what is committed in the end; or a value that
  was acknowledged or read, committed or aborted, is in the log no more (topics here neither expire nor are compacted),
  or was read as committed and is not in the end.
- **duplicate**: one value at two places, unless its producer is not idempotent: a leader may refuse a record that it
  has written, and the next one gets it again.
- **invented value**: a value in a partition to which nobody sent it.
- **inconsistent offsets**: two values at one offset, in any of the reads and answers.
- **unseen**: a write of a committed transaction that no reader got, although readers follow its partition.
- **nonmonotonic send**, **int-nonmonotonic send**: a producer's writes to one partition lie in another order than it
  sent them; within one transaction. Not of a producer that is not idempotent.
- **aborted read** (G1a): with read_committed a value of an aborted transaction is read.
- **precommitted read**: with read_committed a value is read before its producer has asked for the commit.
- **torn transaction**: of a transaction whose end is not known some writes are committed and some are not; or the
  writes of a transaction are committed and the offsets that belong to it are not.
- **zombie**: a producer whose successor (same transactional id) had begun has written or committed after that.
- **hanging transaction**: in the end the last stable offset is before the high watermark, and stays there.
- **lost transfer**: a group's offset is past a record that no committed transaction of the group has read.
- **repeated transfer**: two committed transactions of a group have read the same record.
- **lost commit**: without a transaction, a group's offset is before one whose commit was acknowledged.
- **poll skip**, **nonmonotonic poll**: a reader that did not seek gets a record though there was one before it that it
  has to see, or gets one again, or one before.
- **int-poll-skip**, **int-nonmonotonic-poll**: the same within one transaction that transfers.
- **G1c**: committed transactions have read each other's writes in a circle: one of them before its commit.
- **poll reset**: a reader's offset is said not to exist.
- **unfinished read**: a reader that follows never comes to the end.

What Kafka does not promise is no anomaly: offsets without a value for the reader (aborted records, markers); a commit
without an answer, or with an error for one, counts as either, but with all of its writes and offsets or none; and a
reader of two partitions may see one half of a transaction before the other: Kafka has no snapshot over partitions.
`permitted` counts two more, as Jepsen does:

- **G0**: transactions have written before each other in a circle; their writes are interleaved.
- **int-send-skip**: another transaction's writes lie between those of a transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from support.transfers.anomaly import Anomaly, Kind, anomaly
from support.transfers.commit_checks import check_commits
from support.transfers.dependencies import read_cycles
from support.transfers.history import History, Outcome, Partition, Poll, Record, Seek, Transaction, Write
from support.transfers.poll_checks import check_reader
from support.transfers.transfer_checks import check_transfers


def check(history: History) -> list[Anomaly]:
    """Every anomaly, in no meaningful order."""
    view = View(history)
    found = [*view.placement(), *view.order(), *view.commits(), *view.reads(), *view.zombies(), *view.hanging()]
    found += view.unseen()
    for reader in history.readers:
        found += check_reader(reader, history.rest)
    visible = {id(each) for each in history.transactions if view.is_visible(each)}
    found += check_transfers(history, visible)
    found += read_cycles(history, visible)
    found += check_commits(history)
    return found


class View:
    """A history by value."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.writer: dict[str, tuple[Transaction, Write]] = {}
        for transaction in history.transactions:
            for write in transaction.writes:
                assert write.value not in self.writer, f"{write.value} was sent twice"
                self.writer[write.value] = transaction, write
        self.places: dict[str, set[tuple[Partition, int]]] = defaultdict(set)
        self.at: dict[tuple[Partition, int], dict[str, str]] = defaultdict(dict)
        for record, witness in self._sightings():
            place = (record.partition, record.offset)
            self.places[record.value].add(place)
            self.at[place].setdefault(record.value, witness)
        rests = history.rest.items()
        self.kept = {(partition, value) for partition, rest in rests for value in rest.everything.values()}
        self.committed = {(partition, value) for partition, rest in rests for value in rest.committed.values()}

    def _sightings(self) -> Iterator[tuple[Record, str]]:
        """All observations of the value at an offset, with their sources."""
        for partition, rest in self.history.rest.items():
            for offset, value in rest.everything.items():
                yield Record(partition, offset, value), "the end, uncommitted"
            for offset, value in rest.committed.items():
                yield Record(partition, offset, value), "the end, committed"
        for reader in self.history.readers:
            for event in reader.events:
                if isinstance(event, Poll):
                    for record in event.records:
                        yield record, reader.name
        for transaction in self.history.transactions:
            for record in transaction.inputs:
                yield record, str(transaction)
            for write in transaction.writes:
                if write.offset is not None:
                    yield Record(write.partition, write.offset, write.value), f"acknowledgement of {transaction}"

    def is_visible(self, transaction: Transaction) -> bool:
        """Whether any of its writes is committed in the end."""
        return any((write.partition, write.value) in self.committed for write in transaction.writes)

    def _is_idempotent(self, value: str) -> bool:
        return value not in self.writer or self.writer[value][0].is_idempotent

    # -- what lies where ---------------------------------------------------------------------------------------------

    def placement(self) -> Iterator[Anomaly]:
        """Inconsistent offsets, duplicates, invented values."""
        for (partition, offset), values in self.at.items():
            if len(values) > 1:
                yield anomaly(
                    Kind.INCONSISTENT_OFFSETS,
                    f"seen by {', '.join(values.values())}",
                    partition,
                    offsets=[offset],
                    values=values,
                )
        for value, places in self.places.items():
            if len(places) > 1 and self._is_idempotent(value):
                yield anomaly(
                    Kind.DUPLICATE,
                    f"at {sorted(places)}",
                    min(places)[0],
                    offsets=[offset for _, offset in sorted(places)],
                    values=[value],
                    operations=[self.writer[value][0]] if value in self.writer else [],
                )
            for partition, offset in places:
                sent = self.writer.get(value)
                if sent is None or sent[1].partition != partition:
                    yield anomaly(
                        Kind.INVENTED_VALUE,
                        "nobody sent it here",
                        partition,
                        offsets=[offset],
                        values=[value],
                        operations=self.at[partition, offset].values(),
                    )

    def order(self) -> Iterator[Anomaly]:
        """Writes that lie in another order than they were sent in, by producer and partition."""
        last: dict[tuple[str, Partition], tuple[int, str, Transaction]] = {}
        offsets = {
            partition: {value: offset for offset, value in rest.everything.items()}
            for partition, rest in self.history.rest.items()
        }
        for transaction in self.history.transactions:
            if not transaction.is_idempotent:
                continue
            for write in transaction.writes:
                offset = offsets[write.partition].get(write.value)
                if offset is None:
                    continue
                before = last.get((transaction.client, write.partition))
                if before is not None and before[0] > offset:
                    yield anomaly(
                        Kind.INT_NONMONOTONIC_SEND if before[2] is transaction else Kind.NONMONOTONIC_SEND,
                        "the first was sent before the second",
                        write.partition,
                        offsets=[before[0], offset],
                        values=[before[1], write.value],
                        operations=[transaction],
                    )
                last[transaction.client, write.partition] = offset, write.value, transaction

    # -- transactions ------------------------------------------------------------------------------------------------

    def commits(self) -> Iterator[Anomaly]:
        """Lost writes and torn transactions."""
        for transaction in self.history.transactions:
            missing = [one for one in transaction.writes if (one.partition, one.value) not in self.committed]
            for write in transaction.writes:
                where = write.partition, write.value
                gone = where not in self.kept and bool(self.places.get(write.value))
                uncommitted = transaction.outcome is Outcome.OK and write in missing
                if gone or uncommitted:
                    yield anomaly(
                        Kind.LOST_WRITE,
                        "somebody was told of it, and it is not in the log" if gone else "of a committed transaction",
                        write.partition,
                        offsets=[] if write.offset is None else [write.offset],
                        values=[write.value],
                        operations=[transaction],
                    )
            if transaction.outcome is Outcome.UNKNOWN and 0 < len(missing) < len(transaction.writes):
                yield anomaly(
                    Kind.TORN_TRANSACTION,
                    f"{len(missing)} of {len(transaction.writes)} writes are not committed",
                    missing[0].partition,
                    values=[write.value for write in missing],
                    operations=[transaction],
                )

    def unseen(self) -> Iterator[Anomaly]:
        """Committed writes that no reader got."""
        followed: set[Partition] = set()
        seen: set[tuple[Partition, str]] = set()
        for reader in self.history.readers:
            for event in reader.events:
                if isinstance(event, Seek) and reader.follows:
                    followed.add(event.partition)
                elif isinstance(event, Poll):
                    seen.update((record.partition, record.value) for record in event.records)
        for transaction in self.history.transactions:
            if transaction.outcome is not Outcome.OK:
                continue
            for write in transaction.writes:
                if write.partition in followed and (write.partition, write.value) not in seen:
                    yield anomaly(
                        Kind.UNSEEN,
                        "no reader got it",
                        write.partition,
                        offsets=[] if write.offset is None else [write.offset],
                        values=[write.value],
                        operations=[transaction],
                    )

    def reads(self) -> Iterator[Anomaly]:
        """Aborted and precommitted reads."""
        told: dict[Record, tuple[int | None, str]] = {}
        for partition, rest in self.history.rest.items():
            for offset, value in rest.committed.items():
                told.setdefault(Record(partition, offset, value), (None, "the end, committed"))
        for transaction in self.history.transactions:
            for record in transaction.inputs:
                told.setdefault(record, (None, str(transaction)))
        for reader in self.history.readers:
            for event in reader.events:
                if reader.committed and isinstance(event, Poll):
                    for record in event.records:
                        now, _ = told.get(record, (None, ""))
                        if now is None or event.told_ns < now:
                            told[record] = event.told_ns, reader.name
        for record, (when, witness) in told.items():
            if (record.partition, record.value) not in self.committed:
                yield anomaly(
                    Kind.LOST_WRITE,
                    "was read as committed, and is not in the end",
                    record.partition,
                    offsets=[record.offset],
                    values=[record.value],
                    operations=[witness],
                )
            sent = self.writer.get(record.value)
            if sent is None:
                continue
            transaction = sent[0]
            if transaction.outcome is Outcome.FAIL:
                kind, why = Kind.ABORTED_READ, "of a transaction that was never committed"
            elif when is not None and (transaction.ending_ns is None or when < transaction.ending_ns):
                kind, why = Kind.PRECOMMITTED_READ, "before the commit was asked for"
            else:
                continue
            yield anomaly(
                kind,
                why,
                record.partition,
                offsets=[record.offset],
                values=[record.value],
                operations=[transaction, witness],
            )

    def zombies(self) -> Iterator[Anomaly]:
        """What producers did after their successors had begun."""
        starts = defaultdict(list)
        for start in self.history.starts:
            if start.ready_ns is not None:
                starts[start.transactional_id].append((start.asked_ns, start.ready_ns))
        ready = {start.client: start.ready_ns for start in self.history.starts}
        for transaction in self.history.transactions:
            own_ns = ready.get(transaction.client)
            if transaction.transactional_id is None or own_ns is None:
                continue
            # Of two that began at the same time nobody knows which one is the successor.
            fences = [then_ns for asked_ns, then_ns in starts[transaction.transactional_id] if asked_ns > own_ns]
            if not fences:
                continue
            fenced_ns = min(fences)
            late = [one for one in transaction.writes if one.sent_ns > fenced_ns and one.value in self.places]
            ending_ns = transaction.ending_ns
            ended_late = ending_ns is not None and ending_ns > fenced_ns
            committed_late = ended_late and (transaction.outcome is Outcome.OK or self.is_visible(transaction))
            if late or committed_late:
                yield anomaly(
                    Kind.ZOMBIE,
                    "it has written after its successor had begun" if late else "it has committed after that",
                    late[0].partition if late else None,
                    values=[write.value for write in late],
                    operations=[transaction],
                )

    def hanging(self) -> Iterator[Anomaly]:
        """Partitions whose last stable offset is stuck."""
        for partition, rest in self.history.rest.items():
            if rest.stable < rest.end:
                yield anomaly(
                    Kind.HANGING_TRANSACTION,
                    f"the last stable offset is {rest.stable}, the high watermark {rest.end}",
                    partition,
                    offsets=[rest.stable, rest.end],
                )
