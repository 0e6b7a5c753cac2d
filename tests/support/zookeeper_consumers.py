"""ZooKeeper consumers as processes that can be killed, their journals, and the checks of these.

A process (`run`) writes a line for every claim, release and record, each with the machine's monotonic
time in ns, before it does anything else with it. `check_journals` holds the lines of all processes against each other:

- a record is handed out by the consumer that was the last to claim its partition, never by one before it;
- the next owner of a partition continues where the records before have ended, or before that: nothing is skipped;
- within a claim the offsets are without gaps.

`OwnerWatch` looks at the owners in ZooKeeper meanwhile: while a node is there, nobody but its owner is handed records.
"""

import asyncio
import json
import os
import signal
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from client.topic_partition import TopicPartition
from client.zookeeper.consumer import ZooKeeperConsumer
from client.zookeeper.rebalance import ZooKeeperRebalanceListener
from registry.errors import NoNodeError
from registry.znodes.consumers import ConsumerOwnerZnode
from support.deadlines import DEADLINE_S
from support.fork_server import ForkedProcess
from support.polling import until

CLAIM, RELEASE, LOST, RECORD, READY = "claim", "release", "lost", "record", "ready"
PAUSED, RESUMED = "paused", "resumed"


class Entry(NamedTuple):
    """A line of a journal. `detail` is the offset of a record, else the thread."""

    time_ns: int
    consumer: str
    kind: str
    partition: TopicPartition | None
    detail: str


class Journal(ZooKeeperRebalanceListener):
    """Writes lines to a file, each with one call, so that a kill loses none that came before."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, kind, partition=None, detail=""):
        where = "-" if partition is None else f"{partition.topic}\t{partition.partition}"
        os.write(self._file, f"{time.monotonic_ns()}\t{kind}\t{where}\t{detail}\n".encode())

    async def before_starting_fetchers(self, partitions):
        for partition, thread in partitions.items():
            self.write(CLAIM, partition, thread)

    async def before_releasing_partitions(self, partitions):
        for partition in partitions:
            self.write(RELEASE, partition)

    async def partitions_lost(self, partitions):
        for partition in partitions:
            self.write(LOST, partition)


async def main(path, options):
    journal = Journal(path)
    async with ZooKeeperConsumer(rebalance_listener=journal, **options) as consumer:
        number, password = consumer._registry.credentials
        journal.write(READY, detail=json.dumps([consumer.consumer_id, number, password.hex()]))
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, stopped.set)
        loop.add_signal_handler(signal.SIGUSR1, pause, journal)
        reading = asyncio.create_task(read(consumer, journal))
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait([reading, stopping], return_when=asyncio.FIRST_COMPLETED)
        await consumer.close()
        await reading
        stopping.cancel()


def pause(journal):
    """Stop this process. A callback of its event loop: never between a record that was handed out and its line."""
    journal.write(PAUSED)
    os.kill(os.getpid(), signal.SIGSTOP)
    journal.write(RESUMED)


def run(path, options):
    asyncio.run(main(path, options))


async def read(consumer, journal):
    async for record in consumer:
        journal.write(RECORD, TopicPartition(record.topic, record.partition), record.offset)


class ConsumerProcess:
    """One consumer as a process."""

    def __init__(self, path: Path, topics, **options):
        self.path = path
        self.out = path.with_suffix(".out")
        self._entries = []
        self._read_to = 0
        self.process = ForkedProcess(run, path, {"topics": topics, **options}, out=self.out)

    def entries(self):
        """Its journal so far."""
        if self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read_to)
                *lines, _ = file.read().split(b"\n")  # the last one may be half written
            self._read_to += sum(len(line) + 1 for line in lines)
            for line in lines:
                time_ns, kind, *rest = line.decode().split("\t")
                partition = None if rest[0] == "-" else TopicPartition(rest[0], int(rest[1]))
                self._entries.append(Entry(int(time_ns), self.path.name, kind, partition, rest[-1]))
        return self._entries

    @property
    def is_ready(self):
        assert self.process.poll() is None, self.out.read_text()
        return any(entry.kind == READY for entry in self.entries())

    def credentials(self):
        """Id and password of its first session."""
        ready = next(entry for entry in self.entries() if entry.kind == READY)
        _, number, password = json.loads(ready.detail)
        return number, bytes.fromhex(password)

    @property
    def consumer_id(self):
        return json.loads(next(entry for entry in self.entries() if entry.kind == READY).detail)[0]

    def owned(self):
        """The partitions that it has claimed and not released, according to its journal."""
        owned = set()
        for entry in self.entries():
            if entry.kind == CLAIM:
                owned.add(entry.partition)
            elif entry.kind in (RELEASE, LOST):
                owned.discard(entry.partition)
        return owned

    def count(self, kind):
        return sum(entry.kind == kind for entry in self.entries())

    async def pause(self):
        """Stop the process between two records: one that it was handed just before could not be protected."""
        self.process.send_signal(signal.SIGUSR1)
        await until(lambda: self.count(PAUSED) > self.count(RESUMED), "the consumer pauses")

    async def resume(self):
        """Let it go on."""

        def goes_on():
            self.process.send_signal(signal.SIGCONT)  # again, if it came before the process had stopped
            return self.count(RESUMED) == self.count(PAUSED)

        await until(goes_on, "the consumer goes on")

    async def end(self, number=signal.SIGTERM):
        """Send a signal and wait."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = await asyncio.to_thread(self.process.wait, 30)
        assert code in (0, -number), self.out.read_text()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        self.process.wait(DEADLINE_S)


def offsets_read(processes):
    """The offsets that any consumer received, by partition."""
    found = defaultdict(set)
    for process in processes:
        for entry in process.entries():
            if entry.kind == RECORD:
                found[entry.partition].add(int(entry.detail))
    return found


def check_entries(entries):
    """Raise AssertionError for the first entry that breaks a rule; the number of records handed out twice."""
    claimant = {}  # the last to claim a partition
    following = {}  # the offset that must come next in this claim; None at its beginning
    end = {}  # one after the greatest offset that anybody was handed
    twice = 0
    for entry in sorted(entries):
        partition = entry.partition
        if entry.kind == CLAIM:
            claimant[partition], following[partition] = entry.consumer, None
        elif entry.kind == RECORD:
            offset = int(entry.detail)
            assert claimant.get(partition) == entry.consumer, f"two owners: {entry}, {claimant.get(partition)} owns it"
            if following[partition] is None:
                assert offset <= end.get(partition, 0), f"skipped: {entry}, {end.get(partition, 0)} would be next"
            else:
                assert offset == following[partition], f"a gap: {entry}, {following[partition]} would be next"
            following[partition] = offset + 1
            twice += offset < end.get(partition, 0)
            end[partition] = max(end.get(partition, 0), offset + 1)
    return twice


def check_journals(processes):
    """Check the rules over the journals of all processes."""
    return check_entries([entry for process in processes for entry in process.entries()])


class OwnerWatch:
    """Looks at the owners of some partitions as fast as it can; a context manager.

    `path` gives the node of an owner's lock from group, topic and partition.
    """

    def __init__(self, registry, group, partitions, path=ConsumerOwnerZnode.path):
        self._registry = registry
        self._paths = {partition: path(group, *partition) for partition in partitions}
        # Of each node (it is known by the transaction that made it): its partition, its owner, and when it was there
        # for certain, in ns.
        self.seen = {}
        self._task = None

    async def __aenter__(self):
        self._task = asyncio.create_task(self._look())
        return self

    async def __aexit__(self, *_):
        self._task.cancel()
        await asyncio.wait([self._task])

    async def _look(self):
        while True:
            for partition, path in self._paths.items():
                before = time.monotonic_ns()
                try:
                    data, stat = await self._registry.get(path)
                except NoNodeError:
                    continue
                after = time.monotonic_ns()
                assert stat.version == 0, f"{path} was changed in place"
                start = self.seen.get((partition, stat.czxid), (None, after))[1]
                self.seen[partition, stat.czxid] = (data.decode(), start, before)
            await asyncio.sleep(0.005)

    def owners(self, partition):
        """The owners of a partition, in order."""
        return [owner for (one, _), (owner, _, _) in sorted(self.seen.items()) if one == partition]

    def check(self, processes):
        """Raise AssertionError where somebody was handed a record whose partition was another's; how many were looked
        at.
        """
        names = {process.path.name: process.consumer_id for process in processes}
        looked_at = 0
        for entry in (entry for process in processes for entry in process.entries()):
            if entry.kind != RECORD:
                continue
            for (partition, _), (owner, start, end) in self.seen.items():
                if partition == entry.partition and start <= entry.time_ns <= end:
                    looked_at += 1
                    assert owner.startswith(f"{names[entry.consumer]}-"), f"{entry}, while {owner} owns it"
        return looked_at
