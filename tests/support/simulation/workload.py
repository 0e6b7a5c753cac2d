"""The clients of a run: producers with acks=all, a consumer that reads, and one that asks for end offsets.

All are Ottla's own, over the simulated network. What they are told goes into the ledger.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from client.consumer.reader import Reader
from client.errors import KafkaError
from client.producer.accumulator import RecordMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from support.simulation.cluster import NotInTimeError, SimulatedCluster
from support.simulation.ledger import Ledger

UNDER_WAY = 4
ONE_BY_ONE = "p2"
"""The producer whose records are batches of their own, and more of them under way: so several are in flight."""


class Workload:
    """The clients, as tasks of one group; `stop` ends the producers."""

    def __init__(self, cluster: SimulatedCluster, ledger: Ledger, partitions: Sequence[TopicPartition]) -> None:
        self.acknowledged = 0
        self.failed = 0
        self._cluster = cluster
        self._ledger = ledger
        self._partitions = partitions
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        """Stop the producers."""
        self._stopping.set()

    async def produce(self, name: str, pause_s: tuple[float, float]) -> None:
        """Send records with a pause between two, until stopped; a few may be under way at a time."""
        _, network, rng = self._cluster.client_network()
        producer = Producer(
            bootstrap_servers=self._cluster.bootstrap_servers,
            client_id=name,
            acks="all",
            request_timeout_ms=3_000,
            delivery_timeout_ms=rng.choice((8_000, 20_000)),
            batch_size=1 if name == ONE_BY_ONE else 65_536,
            retry_backoff_ms=50,
            retry_backoff_max_ms=500,
            metadata_max_age_ms=5_000,
            network=network,
            random=rng,
            now_ms=self._cluster.now_ms,
        )
        slots = asyncio.Semaphore(4 * UNDER_WAY if name == ONE_BY_ONE else UNDER_WAY)
        number = 0
        await _started(producer)
        try:
            async with asyncio.TaskGroup() as sending:
                while not self._stopping.is_set():
                    await slots.acquire()
                    number += 1
                    partition = rng.choice(self._partitions)
                    future = producer.send_nowait(
                        partition.topic, f"{name}-{number}".encode(), partition=partition.partition
                    )
                    sending.create_task(self._sent(future, partition, f"{name}-{number}".encode(), slots))
                    await asyncio.sleep(rng.uniform(*pause_s))
        finally:
            await producer.close(timeout_s=0)

    async def _sent(
        self,
        future: asyncio.Future[RecordMetadata],
        partition: TopicPartition,
        value: bytes,
        slots: asyncio.Semaphore,
    ) -> None:
        try:
            written = await future
        except KafkaError as error:
            self.failed += 1
            self._cluster.trace.tell("producer:", value.decode(), "failed:", type(error).__name__, error)
        else:
            self.acknowledged += 1
            self._cluster.trace.note("acknowledged", partition, written.offset, value)
            self._ledger.acknowledge(partition.topic, partition.partition, written.offset, value)
        finally:
            slots.release()

    async def consume(self) -> None:
        """Read everything from the beginning, as it comes, until cancelled; and ask for the ends meanwhile."""
        reader = self._reader("consumer")
        next_offsets = dict.fromkeys(self._partitions, 0)
        await _started(reader)
        try:
            reader.assign(next_offsets)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._ask_for_ends(reader, next_offsets))
                while True:
                    for record in await _patiently(reader):
                        key = TopicPartition(record.topic, record.partition)
                        self._ledger.consume(record, next_offsets[key])
                        next_offsets[key] += 1
        finally:
            await reader.close()

    async def _ask_for_ends(self, reader: Reader, next_offsets: dict[TopicPartition, int]) -> None:
        """What a consumer is told of the end is never before what it has read, or been told already.

        Of one consumer: a leader that has been replaced and does not know it (it was paused) may still answer others,
        who do not know it either. What it tells them was true when it led.
        """
        told = dict.fromkeys(self._partitions, 0)
        while True:
            known = {one: max(told[one], next_offsets[one]) for one in self._partitions}
            try:
                ends = await reader.end_offsets(self._partitions)
            except KafkaError:
                ends = {}
            for partition, end in ends.items():
                self._ledger.answer_end(partition, end, known[partition])
                told[partition] = max(told[partition], end)
            await asyncio.sleep(0.7)

    async def read_everything(
        self, ends: dict[TopicPartition, int], within_s: float
    ) -> dict[TopicPartition, dict[int, bytes]]:
        """The records of the partitions by offset, up to these end offsets. Raises NotInTimeError."""
        deadline = asyncio.get_running_loop().time() + within_s
        content: dict[TopicPartition, dict[int, bytes]] = {partition: {} for partition in ends}
        reader = self._reader("last reader")
        await _started(reader)
        try:
            reader.assign(dict.fromkeys(ends, 0))
            while any(len(content[partition]) < end for partition, end in ends.items()):
                if asyncio.get_running_loop().time() > deadline:
                    counts = {partition: len(found) for partition, found in content.items()}
                    raise NotInTimeError(f"not in {within_s:.0f} s: {ends} are read, only {counts}")
                for record in await _patiently(reader):
                    assert record.value is not None
                    content[TopicPartition(record.topic, record.partition)][record.offset] = record.value
        finally:
            await reader.close()
        return content

    def _reader(self, name: str) -> Reader:
        _, network, rng = self._cluster.client_network()
        return Reader(
            bootstrap_servers=self._cluster.bootstrap_servers,
            client_id=name,
            auto_offset_reset="none",
            request_timeout_ms=3_000,
            retry_backoff_ms=50,
            retry_backoff_max_ms=500,
            metadata_max_age_ms=5_000,
            network=network,
            random=random.Random(rng.getrandbits(64)),
        )


async def _patiently(reader: Reader) -> list:  # type: ignore[type-arg]
    """The next records; lost connections and similar errors are retried."""
    try:
        return await reader.fetch(timeout_ms=2_000)
    except KafkaError as error:
        if not error.retriable:
            raise
        await asyncio.sleep(0.1)
        return []


async def _started(client: Producer | Reader) -> None:
    while True:
        try:
            await client.start()
        except KafkaError:
            await asyncio.sleep(0.5)
        else:
            return
