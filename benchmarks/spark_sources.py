"""The Python sources of Spark that benchmarks/spark_source.py holds side by side. All give the source's seven columns.

- `ottla-clocked`: ours, with clocks: what its fetching (the client's thread) and decoding cost, a line of JSON a task.
- `confluent`: the same harness with confluent-kafka: a thousand messages a call, made into an Arrow batch by columns.
- `synthetic`: one Arrow batch of about 1 MiB, again and again: what Spark itself takes for so many rows.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_connector.data_source import OttlaDataSource
from spark_connector.schema import source_schema

MESSAGES = 1000


class ClockedSource(OttlaDataSource):
    @classmethod
    def name(cls) -> str:
        return "ottla-clocked"

    def schema(self) -> StructType:
        return source_schema({})

    def reader(self, schema: StructType) -> DataSourceReader:
        folder = Path(self.options.pop("clocks"))
        return ClockedReader(super().reader(schema), folder)


class ClockedReader(DataSourceReader):
    def __init__(self, reader: Any, folder: Path) -> None:
        self._reader = reader
        self._folder = folder

    def partitions(self) -> Any:
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from spark_connector import event_loop, record_batches

        class Clocked(record_batches.RecordBatches):
            seconds = 0.0

            def batch(self, fetched: Any) -> Any:
                began = time.thread_time()
                try:
                    return super().batch(fetched)
                finally:
                    Clocked.seconds += time.thread_time() - began

        async def fetch_seconds() -> float:
            return time.thread_time()

        process, fetch = time.process_time(), event_loop.run(fetch_seconds())
        with patch.object(record_batches, "RecordBatches", Clocked):
            yield from self._reader.read(partition)
        figures = {
            "decode": Clocked.seconds,
            "fetch": event_loop.run(fetch_seconds()) - fetch,
            "process": time.process_time() - process,
        }
        with (self._folder / f"{os.getpid()}.clocks").open("a") as file:
            file.write(json.dumps(figures) + "\n")


class OneTopicSource(DataSource):
    """A source that is told its number of partitions."""

    Reader: type[OneTopicReader]

    def schema(self) -> StructType:
        return source_schema({})

    def reader(self, schema: StructType) -> DataSourceReader:
        return self.Reader(dict(self.options), schema)


class OneTopicReader(DataSourceReader):
    def __init__(self, options: dict[str, str], schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(int(self._options["partitions"]))]


class ConfluentReader(OneTopicReader):
    def read(self, partition: InputPartition) -> Iterator[Any]:
        from confluent_kafka import Consumer, TopicPartition
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self._schema, timezone="UTC")
        topic, number = self._options["topic"], partition.value
        settings = {"bootstrap.servers": self._options["bootstrap"], "group.id": "bench", "enable.auto.commit": False}
        consumer = Consumer(settings)
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, number), 30)
            consumer.assign([TopicPartition(topic, number, 0)])
            position = 0
            while position < end:
                messages = consumer.consume(min(MESSAGES, end - position), 10)  # for more it would wait in vain
                if not messages:
                    raise RuntimeError(f"no messages after {position} of {end}")
                position = messages[-1].offset() + 1
                yield _batch(messages, schema)
        finally:
            consumer.close()


class SyntheticReader(OneTopicReader):
    def read(self, partition: InputPartition) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        schema = to_arrow_schema(self._schema, timezone="UTC")
        size, rows = int(self._options["size"]), int(self._options["rows"])
        count = 1024 * 1024 // (size + 50)
        columns = [[None], [bytes(size)], ["read"], [partition.value], [0], [0], [0]]
        arrays = [pa.array(one * count, field.type) for one, field in zip(columns, schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
        while rows > 0:
            yield batch.slice(0, min(count, rows))
            rows -= count


class ConfluentSource(OneTopicSource):
    Reader = ConfluentReader

    @classmethod
    def name(cls) -> str:
        return "confluent"


class SyntheticSource(OneTopicSource):
    Reader = SyntheticReader

    @classmethod
    def name(cls) -> str:
        return "synthetic"


def _batch(messages: list[Any], schema: Any) -> Any:
    import pyarrow as pa

    times = [message.timestamp() for message in messages]
    columns = [
        [message.key() for message in messages],
        [message.value() for message in messages],
        [message.topic() for message in messages],
        [message.partition() for message in messages],
        [message.offset() for message in messages],
        [at * 1000 for _, at in times],
        [kind - 1 for kind, _ in times],
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
