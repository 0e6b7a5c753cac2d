"""The rows of one task on their way to a producer, so that few of them are in memory and none fails unnoticed.

Rows are queued an Arrow batch at a time. While the first of `MAX_BATCHES` is not acknowledged no more is taken from
Spark; within them the producer's `buffer.memory` holds rows back.
"""

import asyncio
from collections import deque
from typing import Final, NamedTuple

import pyarrow as pa

from client.errors import KafkaError
from client.producer.producer import Producer
from spark_connector.errors import DeliveryError
from spark_connector.sink_columns import Rows, SinkColumns

MAX_BATCHES: Final = 4


class _Sent(NamedTuple):
    """What is to be acknowledged of some rows."""

    rows: Rows
    futures: list["asyncio.Future[None]"]


class RowSender:
    """Sends Arrow batches through `producer`. Its methods belong to the producer's event loop."""

    def __init__(self, producer: Producer, columns: SinkColumns) -> None:
        self._producer = producer
        self._columns = columns
        self._sent: deque[list[_Sent]] = deque()
        self.count = 0
        """Rows that were queued."""

    async def send(self, batch: pa.RecordBatch) -> None:
        """Queue the rows of a batch. Raises DeliveryError where one is known not to be written, ColumnError."""
        if not batch.num_rows:
            return
        counts = {topic: await self._partitions_of(topic) for topic in self._columns.topics(batch)}
        sent: list[_Sent] = []
        self._sent.append(sent)
        for rows in self._columns.rows(batch, counts):
            try:
                futures = await self._producer.send_columns(
                    rows.topic, rows.values, keys=rows.keys, headers=rows.headers, partition=rows.partition
                )
            except KafkaError as error:
                raise _failure(rows.topic, rows.partition, error) from error
            sent.append(_Sent(rows._replace(values=(), keys=None, headers=None), futures))
        self.count += batch.num_rows
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
        for future in (future for batch in self._sent for sent in batch for future in sent.futures):
            if not future.cancel() and not future.cancelled():
                future.exception()  # else asyncio complains that nobody has looked
        self._sent.clear()

    async def _partitions_of(self, topic: str) -> int:
        try:
            return len(await self._producer.partitions_for(topic))
        except KafkaError as error:
            raise _failure(topic, None, error) from error

    async def _acknowledged(self, batch: list[_Sent]) -> None:
        for sent in batch:
            for future in sent.futures:
                try:
                    await future
                except KafkaError as error:
                    raise _failure(sent.rows.topic, sent.rows.partition, error) from error


def _failure(topic: str, partition: int | None, error: KafkaError) -> DeliveryError:
    where = topic if partition is None else f"{topic}-{partition}"
    return DeliveryError(f"a row for {where} was not written: {error}")
