"""The measurements behind `ottla perf`."""

import asyncio
import random
import time
from array import array
from asyncio import Future
from base64 import b64encode
from collections.abc import Sequence

from client.errors import BufferFullError
from client.producer.accumulator import RecordMetadata
from client.topic_partition import TopicPartition
from ottla.command_line.clients import Producer, Reader
from ottla.command_line.output import print_json, print_table
from ottla.command_line.progress import Progress
from ottla.command_line.retry_warning import warn_of_retries

PERCENTILES = (50, 95, 99, 99.9)
# Without a rate, yield to the event loop after this many records.
BURST = 500
VALUES = 64
# Values overlap if they are larger than this. So a large size does not take VALUES times the time and the memory.
LARGEST_STEP = 64 * 1024


class RandomValues:
    """VALUES different values of `size` random printable bytes, which are slices of one block."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._step = min(size, LARGEST_STEP)
        length = size + (VALUES - 1) * self._step
        self._block = b64encode(random.Random(0).randbytes(length * 3 // 4 + 1))

    def __getitem__(self, number: int) -> bytes:
        """Return the value of record `number`; the values repeat."""
        start = number % VALUES * self._step
        return self._block[start : start + self._size]


class PerfResult:
    """The result of a measurement: counts, times in seconds, latencies in ms (an array of floats)."""

    def __init__(self, latency_name: str) -> None:
        self.latency_name = latency_name
        self.records = 0
        self.bytes = 0
        self.seconds = 0.0
        self.cpu_seconds = 0.0
        self.latencies_ms = array("d")

    def as_dict(self) -> dict[str, float | int]:
        """Return the figures by name."""
        seconds = max(self.seconds, 1e-9)
        figures: dict[str, float | int] = {
            "records": self.records,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "client_cpu_seconds": round(self.cpu_seconds, 3),
            "records_per_second": round(self.records / seconds, 1),
            "mb_per_second": round(self.bytes / seconds / 1e6, 3),
        }
        ordered = sorted(self.latencies_ms)
        if ordered:
            figures[f"{self.latency_name}_mean_ms"] = round(sum(ordered) / len(ordered), 3)
            for percent in PERCENTILES:
                index = min(len(ordered) - 1, int(len(ordered) * percent / 100))
                figures[f"{self.latency_name}_p{percent:g}_ms"] = round(ordered[index], 3)
            figures[f"{self.latency_name}_max_ms"] = round(ordered[-1], 3)
        return figures

    def show(self, as_json: bool) -> None:
        """Print the figures."""
        if as_json:
            print_json(self.as_dict())
        else:
            print_table(("", ""), [(name.replace("_", " "), f"{value:,}") for name, value in self.as_dict().items()])


class ProduceRun:
    """Sends `records` records at `rate` records per second (0: no limit)."""

    def __init__(
        self,
        producer: Producer,
        topic: str,
        partition: int | None,
        records: int,
        value_size: int,
        rate: float,
        *,
        live: bool,
    ) -> None:
        self.result = PerfResult("latency")
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._records = records
        self._value_size = value_size
        self._rate = rate
        self._progress = Progress("records", records, enabled=live)
        self._error: BaseException | None = None

    async def run(self) -> None:
        """Send the records and measure. Raises the first error of a record."""
        values = RandomValues(self._value_size)
        started, cpu = time.perf_counter(), time.process_time()
        with self._progress:
            async with warn_of_retries(self._producer, self._progress):
                await self._send_all(values, started)
        self.result.seconds = time.perf_counter() - started
        self.result.cpu_seconds = time.process_time() - cpu
        self.result.bytes = self.result.records * self._value_size
        if self._error is not None:
            raise self._error

    async def _send_all(self, values: RandomValues, started: float) -> None:
        for number in range(self._records):
            if self._rate:
                delay = started + number / self._rate - time.perf_counter()
                if delay > 0:
                    await asyncio.sleep(delay)
            elif number % BURST == 0:
                await asyncio.sleep(0)
            if self._error is not None:
                break
            await self._send(values[number])
            self._progress.update(self.result.records)
        await self._producer.flush()

    async def _send(self, value: bytes) -> None:
        while True:
            try:
                future = self._producer.send_nowait(self._topic, value, partition=self._partition)
                break
            except BufferFullError:
                await self._producer.buffer_has_room()
        sent_at = time.perf_counter()
        future.add_done_callback(lambda done: self._done(done, sent_at))

    def _done(self, future: Future[RecordMetadata], sent_at: float) -> None:
        error = future.exception()
        if error is not None:
            self._error = self._error or error
            return
        self.result.records += 1
        self.result.latencies_ms.append((time.perf_counter() - sent_at) * 1000)


class ConsumeRun:
    """Reads `records` records from the beginning; None reads to the log end offsets at the start."""

    def __init__(
        self,
        reader: Reader,
        partitions: Sequence[TopicPartition],
        records: int | None,
        *,
        raw: bool,
        timeout_s: float,
        live: bool,
    ) -> None:
        self.result = PerfResult("fetch")
        self._reader = reader
        self._partitions = partitions
        self._records = records
        self._raw = raw
        self._timeout_ms = timeout_s * 1000
        self._progress = Progress("records", records, enabled=live)

    async def run(self) -> None:
        """Read the records and measure; ends early if no records arrive within the timeout."""
        result = self.result
        ends = await self._reader.end_offsets(self._partitions)
        self._reader.assign(dict.fromkeys(self._partitions, "beginning"))
        started, cpu = time.perf_counter(), time.process_time()
        last = started
        with self._progress:
            while self._wants_more(ends):
                batches = await self._reader.fetch_batches(timeout_ms=self._timeout_ms)
                if batches is None:
                    break
                now = time.perf_counter()
                result.latencies_ms.append((now - last) * 1000)
                last = now
                if self._raw:
                    for batch in batches.visible_batches():
                        result.records += getattr(batch, "record_count", 1)
                    result.bytes += batches.size_bytes
                else:
                    for record in batches.records():
                        result.records += 1
                        result.bytes += len(record.value or b"") + len(record.key or b"")
                self._progress.update(result.records)
        result.seconds = time.perf_counter() - started
        result.cpu_seconds = time.process_time() - cpu

    def _wants_more(self, ends: dict[TopicPartition, int]) -> bool:
        if self._records is not None:
            return self.result.records < self._records
        reader = self._reader
        return any(not reader.is_known(name) or reader.position(name) < end for name, end in ends.items())
