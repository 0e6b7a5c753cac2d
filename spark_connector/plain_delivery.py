"""At least once: a task is done when all its rows are acknowledged, through a producer that its worker keeps.

The producer is idempotent, so the client's retries do not duplicate records. A task that Spark repeats, and a batch
that a stream runs again after a crash, write their rows again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from spark_connector.delivery import Delivery
from spark_connector.event_loop import run
from spark_connector.row_sender import RowSender
from spark_connector.sink_columns import SinkColumns
from spark_connector.sink_options import SinkOptions
from spark_connector.worker_producers import borrow, give_back


@dataclass
class RowsWritten(WriterCommitMessage):
    """A task's message to the driver: how many rows it has written."""

    count: int


class PlainDelivery(Delivery):
    """Delivers rows as records, at least once."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns

    def write(self, batches: Iterator[pa.RecordBatch]) -> RowsWritten:
        """See Delivery."""
        producer = run(borrow(self._options.client))
        sender = RowSender(producer, self._columns)
        is_sound = False
        try:
            for batch in batches:
                run(sender.send(batch))
            run(sender.finish())
            is_sound = True
        finally:
            if not is_sound:
                run(sender.abandon())
            run(give_back(producer, self._options.client, is_sound=is_sound))
        return RowsWritten(sender.count)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Do nothing: all rows are acknowledged."""

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Do nothing: written rows stay."""
