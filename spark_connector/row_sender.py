"""The rows of one task on their way to a producer, so that few of them are in memory and none fails unnoticed.

Rows are queued an Arrow batch at a time. While the first of `MAX_BATCHES` is not acknowledged no more is taken from
Spark; within them the producer's `buffer.memory` holds rows back.
"""

import asyncio
from collections import deque
from typing import Final, NamedTuple

from client.accumulator import RecordMetadata
from client.errors import BufferFullError, KafkaError
from client.producer import Producer
from spark_connector.errors import DeliveryError
from spark_connector.sink_columns import Rows

MAX_BATCHES: Final = 4


class _Sent(NamedTuple):
    """Rows, and of the first of them, up to all, where they were written."""

    rows: Rows
    futures: list["asyncio.Future[RecordMetadata]"]


class RowSender:
    """Sends batches of rows through `producer`. Its methods belong to the producer's event loop."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._sent: deque[_Sent] = deque()
        self.count = 0
        """Rows that were queued."""

    async def send(self, rows: Rows) -> None:
        """Queue rows. Raises DeliveryError for the first row that is known not to be written."""
        futures: list[asyncio.Future[RecordMetadata]] = []
        self._sent.append(_Sent(rows, futures))
        send, add = self._producer.send_nowait, futures.append
        for topic, value, key, partition, headers in zip(
            rows.topics, rows.values, rows.keys, rows.partitions, rows.headers, strict=True
        ):
            try:
                while True:
                    try:
                        add(send(topic, value, key=key, partition=partition, headers=headers))
                        break
                    except BufferFullError:
                        await self._producer.buffer_has_room()
            except KafkaError as error:
                raise _failure(topic, partition, error) from error
        self.count += len(rows.topics)
        while len(self._sent) >= MAX_BATCHES:
            await self._acknowledged(self._sent[0])
            self._sent.popleft()

    async def finish(self) -> None:
        """Wait until every row is acknowledged. Raises DeliveryError."""
        await self._producer.flush()
        while self._sent:
            await self._acknowledged(self._sent[0])
            self._sent.popleft()

    async def abandon(self) -> None:
        """Nobody wants to know any more what becomes of the rest."""
        for sent in self._sent:
            for future in sent.futures:
                if not future.cancel() and not future.cancelled():
                    future.exception()  # else asyncio complains that nobody has looked
        self._sent.clear()

    async def _acknowledged(self, sent: _Sent) -> None:
        for place, future in enumerate(sent.futures):
            try:
                await future
            except KafkaError as error:
                raise _failure(sent.rows.topics[place], sent.rows.partitions[place], error) from error


def _failure(topic: str, partition: int | None, error: KafkaError) -> DeliveryError:
    where = topic if partition is None else f"{topic}-{partition}"
    return DeliveryError(f"a row for {where} was not written: {error}")
