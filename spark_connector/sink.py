"""The sink: rows of a batch job or of a stream become records.

`new_writer` and `new_stream_writer` check options and columns on the driver, before a row is written.
`spark_connector.plain_delivery` delivers at least once, `spark_connector.transactional_delivery` exactly once (option
`deliveryGuarantee`).
"""

from collections.abc import Iterator, Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from client.options import refuse
from spark_connector.delivery import Delivery
from spark_connector.event_loop import run
from spark_connector.plain_delivery import PlainDelivery
from spark_connector.sink_columns import SinkColumns
from spark_connector.sink_options import sink_options
from spark_connector.transactional_delivery import TransactionalDelivery
from spark_connector.worker_producers import new_producer

_ONLY_BATCH: Final = 0


class SinkWriter(DataSourceArrowWriter):
    """Writes the rows of a batch job."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task. Raises DeliveryError, ColumnError, and the client's errors."""
        return self._delivery.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, when all tasks are done."""
        self._delivery.commit(messages, _ONLY_BATCH)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """On the driver, when the job has failed."""
        self._delivery.abort(messages, _ONLY_BATCH)


class SinkStreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of a stream, batch by batch."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task. Raises DeliveryError, ColumnError, and the client's errors."""
        return self._delivery.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """On the driver, when all tasks of a batch are done."""
        self._delivery.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """On the driver, when a batch has failed; the query ends."""
        self._delivery.abort(messages, batchId)


def new_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> SinkWriter:
    """The writer of a batch job. Raises InvalidOptionError, ColumnError."""
    if overwrite:
        raise refuse("mode", "overwrite", "records can only be appended: use append")
    return SinkWriter(_delivery(options, schema, is_stream=False))


def new_stream_writer(options: Mapping[str, str], schema: StructType) -> SinkStreamWriter:
    """The writer of a stream. In output mode complete it appends the whole result each time, like Spark's Kafka sink.

    Raises InvalidOptionError, ColumnError.
    """
    return SinkStreamWriter(_delivery(options, schema, is_stream=True))


def _delivery(options: Mapping[str, str], schema: StructType, *, is_stream: bool) -> Delivery:
    checked = sink_options(options)
    columns = SinkColumns(schema, checked.topic)

    async def check_client() -> None:
        new_producer(checked.client)

    run(check_client())
    if checked.prefix is None:
        return PlainDelivery(checked, columns)
    return TransactionalDelivery(checked, columns, is_stream=is_stream)
