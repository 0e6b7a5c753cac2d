"""The interface that the sink's writers use for both delivery guarantees."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage


class Delivery(ABC):
    """Made on the driver and pickled for the tasks. A stream's `commit` and `abort` are called on a new object."""

    @abstractmethod
    def write(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: write its rows. Raises DeliveryError, ColumnError, and the client's errors."""

    @abstractmethod
    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """On the driver, when all tasks are done. `batch_id` is 0 in a batch job."""

    @abstractmethod
    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """On the driver, when a task has failed and is not retried. The messages of failed tasks are None."""
