"""Sends the rows of one task to a producer, with few rows in memory, and reports every failure.

Rows are queued an Arrow batch at a time. No more batches are taken from Spark while `MAX_BATCHES` are queued and the
first of them is not acknowledged; within them the producer's `buffer.memory` limits the rows.
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
    """Rows that wait for their acknowledgement."""

    rows: Rows
    futures: list["asyncio.Future[None]"]


class RowSender:
    """Sends Arrow batches through `producer`. Use its methods in the producer's event loop."""

    def __init__(self, producer: Producer, columns: SinkColumns) -> None:
        self._producer = producer
        self._columns = columns
        self._sent: deque[list[_Sent]] = deque()
        self.count = 0
        """The number of rows queued."""

    async def send(self, batch: pa.RecordBatch) -> None:
        """Queue the rows of a batch. Raises DeliveryError if an earlier row was not written, ColumnError."""
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
        """Ignore the results of the remaining rows."""
        for future in (future for batch in self._sent for sent in batch for future in sent.futures):
            if not future.cancel() and not future.cancelled():
                future.exception()  # else asyncio warns that the exception was never retrieved
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
