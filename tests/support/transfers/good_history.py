"""Random histories of a correct broker: a model of partitions, markers and the last stable offset."""

from __future__ import annotations

import random

from support.transfers.history import (
    End,
    History,
    Outcome,
    Partition,
    Poll,
    Reader,
    Record,
    Rest,
    Seek,
    Start,
    Transaction,
    Write,
)

PARTITIONS: tuple[Partition, ...] = (("in", 0), ("in", 1), ("out", 0), ("out", 1))
SOURCES, TARGETS = PARTITIONS[:2], PARTITIONS[2:]
GROUP = "group"


class Model:
    """One correct broker, and clients that act at random."""

    def __init__(self, rng: random.Random) -> None:
        self.history = History()
        self._rng = rng
        self._now_ns = 0
        self._logs: dict[Partition, list[tuple[str, Transaction] | None]] = {each: [] for each in PARTITIONS}
        self._open: dict[str, Transaction] = {}
        self._committed: set[int] = set()  # by id
        self._acknowledges = 0.8
        self._group = dict.fromkeys(SOURCES, 0)
        self._readers = [Reader("committed", True), Reader("uncommitted", False), Reader("wanderer", True)]
        self._positions = {reader.name: dict.fromkeys(PARTITIONS, 0) for reader in self._readers}
        self._lives: dict[str, int] = {}
        for reader in self._readers:
            reader.events += [Seek(partition, 0) for partition in PARTITIONS]

    def _tick(self) -> int:
        self._now_ns += self._rng.randint(1, 5)
        return self._now_ns

    def run(self, steps: int) -> History:
        """Run a number of steps, then end all transactions and read to the end."""
        for _ in range(steps):
            name = self._rng.choice(("feeder0", "feeder1", "transferer"))
            if name not in self._open:
                self._begin(name)
            elif self._rng.random() < 0.3:
                self._end(name)
            else:
                self._write(name)
            if self._rng.random() < 0.4:
                self._poll(self._rng.choice(self._readers))
        for name in list(self._open):
            self._end(name)
        for reader in self._readers:
            self._poll(reader)
            for partition in PARTITIONS:
                reader.events.append(End(partition, len(self._logs[partition])))
        for partition, log in self._logs.items():
            self.history.rest[partition] = Rest(
                len(log), len(log), self._values(partition, committed=False), self._values(partition, committed=True)
            )
        self.history.readers = self._readers
        self.history.offsets = {(GROUP, partition): offset for partition, offset in self._group.items() if offset}
        return self.history

    # -- transactions ------------------------------------------------------------------------------------------------

    def _begin(self, name: str) -> None:
        life = self._lives.get(name)
        if life is None or self._rng.random() < 0.2:
            life = self._lives[name] = (life or 0) + 1
            self.history.starts.append(Start(f"{name}.{life}", name, self._tick(), self._tick()))
        transaction = Transaction(f"{name}.{life}", len(self.history.transactions), name, self._tick())
        self.history.transactions.append(transaction)
        self._open[name] = transaction
        if name == "transferer":
            self._read_sources(transaction)

    def _read_sources(self, transaction: Transaction) -> None:
        transaction.group = GROUP
        for partition in SOURCES:
            position = self._group[partition]
            for offset, value in self._values(partition, committed=True).items():
                if position <= offset < self._stable(partition) and self._rng.random() < 0.8:
                    transaction.inputs.append(Record(partition, offset, value))
                    transaction.offsets[partition] = offset + 1
                elif offset >= position:
                    break
        if transaction.inputs:
            self._write("transferer")

    def _write(self, name: str) -> None:
        transaction = self._open[name]
        if name == "transferer" and not transaction.inputs:
            return
        partition = self._rng.choice(TARGETS if name == "transferer" else PARTITIONS)
        value = f"{transaction.client}/{transaction.number}/{len(transaction.writes)}"
        write = Write(partition, value, self._tick())
        transaction.writes.append(write)
        if self._rng.random() < self._acknowledges:
            write.offset = len(self._logs[partition])
        self._logs[partition].append((value, transaction))

    def _end(self, name: str) -> None:
        transaction = self._open.pop(name)
        commits = self._rng.random() < 0.6
        knows = self._rng.random() < 0.8
        if commits or not knows:
            transaction.ending_ns = self._tick()
            transaction.outcome = Outcome.OK if knows else Outcome.UNKNOWN
        if commits:
            self._committed.add(id(transaction))
            if transaction.writes:
                self._group |= transaction.offsets
        if knows:
            transaction.ended_ns = self._tick()
        for partition in {write.partition for write in transaction.writes}:
            self._logs[partition].append(None)  # the marker

    # -- readers -----------------------------------------------------------------------------------------------------

    def _stable(self, partition: Partition) -> int:
        still_open = {id(each) for each in self._open.values()}
        for offset, entry in enumerate(self._logs[partition]):
            if entry is not None and id(entry[1]) in still_open:
                return offset
        return len(self._logs[partition])

    def _values(self, partition: Partition, *, committed: bool) -> dict[int, str]:
        return {
            offset: entry[0]
            for offset, entry in enumerate(self._logs[partition])
            if entry is not None and (not committed or id(entry[1]) in self._committed)
        }

    def _poll(self, reader: Reader) -> None:
        positions = self._positions[reader.name]
        if reader.name == "wanderer" and self._rng.random() < 0.5:
            for partition in PARTITIONS:
                positions[partition] = self._rng.randint(0, positions[partition])
                reader.events.append(Seek(partition, positions[partition]))
        records = []
        for partition in PARTITIONS:
            end = self._stable(partition) if reader.committed else len(self._logs[partition])
            for offset, value in self._values(partition, committed=reader.committed).items():
                if positions[partition] <= offset < end:
                    records.append(Record(partition, offset, value))
            positions[partition] = max(positions[partition], end)
        reader.events.append(Poll(self._tick(), records))


def good_history(seed: int, steps: int = 60) -> History:
    """A history without anomalies."""
    return Model(random.Random(seed)).run(steps)
