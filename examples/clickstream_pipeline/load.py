"""Sends the clicks of a run to their topic, at the pace at which they happen."""

import asyncio
from collections import Counter
from collections.abc import Sequence

from examples.clickstream_pipeline.clicks import START_MS, Incident, Kind, clickstream, closing_click
from ottla import Producer, RecordMetadata
from ottla.errors import BufferFullError

STEP_S = 0.05


class Load:
    """`run` sends. `speed` is event time over real time: 20 makes twenty minutes of one. `rate` is per real second.

    `sent` counts what was given to the producer, by kind; `acknowledged` what brokers have confirmed. `closing_ms` is
    the event time of the last click of all, which `close` sends.
    """

    def __init__(
        self, producer: Producer, topic: str, *, seed: int, rate: float, speed: float, duration_s: float
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._seed = seed
        self._rate = rate
        self._speed = speed
        self._duration_s = duration_s
        self._failure: BaseException | None = None
        self.began_at = 0.0  # of the event loop's clock
        self.sent: Counter[Kind] = Counter()
        self.acknowledged = 0
        self.closing_ms = 0

    @property
    def end_ms(self) -> int:
        """Event time at the end of the run."""
        return START_MS + int(self._duration_s * self._speed * 1000)

    async def run(self, wrong: Sequence[Incident]) -> None:
        """Send for the duration. Raises KafkaError where a record is not acknowledged."""
        loop = asyncio.get_running_loop()
        self.began_at = loop.time()
        for record in clickstream(self._seed, self._rate / self._speed, wrong):
            if record.send_ms >= self.end_ms:
                break
            due = self.began_at + (record.send_ms - START_MS) / 1000 / self._speed
            if due > loop.time():
                await asyncio.sleep(STEP_S)  # steps, as a sleep for each record would cost more than the record
                self._check()
            await self._send(record.key, record.value)
            self.sent[record.kind] += 1
        await self._finish()

    async def close(self) -> None:
        """Send the click that ends all windows."""
        self.closing_ms = self.end_ms + 24 * 3_600_000
        await self._send(b"closing", closing_click(self.closing_ms))
        self.sent[Kind.CLICK] += 1
        await self._finish()

    async def _send(self, key: bytes, value: bytes) -> None:
        while True:
            try:
                future = self._producer.send_nowait(self._topic, value, key=key)
            except BufferFullError:
                await self._producer.buffer_has_room()
            else:
                future.add_done_callback(self._done)
                return

    def _done(self, future: asyncio.Future[RecordMetadata]) -> None:
        if future.cancelled():
            return
        if (error := future.exception()) is not None:
            self._failure = self._failure or error
        else:
            self.acknowledged += 1

    async def _finish(self) -> None:
        await self._producer.flush()
        await asyncio.sleep(0)  # the callbacks of the last records
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
