"""How the rows of a query are delivered: what a writer of Spark asks for, whichever promise stands behind it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage


class Delivery(ABC):
    """Made on the driver, pickled to the tasks. A stream's `commit` and `abort` are called on a new object."""

    @abstractmethod
    def write(self, batches: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a task: write its rows. Raises DeliveryError, ColumnError, and what the client raises."""

    @abstractmethod
    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """On the driver, when all tasks are done. `batch_id` is 0 in a batch job."""

    @abstractmethod
    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """On the driver, when a task has failed for good. Messages of such tasks are None."""
