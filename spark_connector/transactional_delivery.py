"""Exactly once: a batch of a stream, or a batch job, is visible to read_committed as a whole and once, or not at all.

There are two phases, and between them a decision that is recorded in the cluster (`spark_connector.commit_ledger`):

1. Each task writes its rows in its own transaction and does not end it. It sends the transaction's name to the driver
   (transactional id, producer id, epoch).
2. When all tasks are done, the driver opens the ledger and checks whether this batch was decided before. If not, it
   writes the decision: batch and names. Then it commits all these transactions, which takes milliseconds.

The distribution of rows over tasks does not matter, so it may change when a batch is run again. If a run ends early:

- before the decision: no row is visible. The batch is run again; the first commit after that aborts the transactions
  that were left open.
- after the decision, whether or not the transactions are ended: the batch counts as committed. When it is run again,
  the driver aborts the new transactions of its tasks and commits those in the ledger, which may be repeated.
- a driver that was considered dead continues: opening the ledger has fenced it, so of two commits of a batch one
  writes the decision, and the other finds it. The transactional ids `<prefix>-<run>-<partition>-<attempt>` belong to
  one run of a query and one attempt, so no task ever fences what another run or attempt has written.

Before the decision the driver checks whether all transactions are still open under their epochs, and notes which other
transactions of this prefix are open: those of failed attempts, duplicates of speculation, leftovers of an earlier run.
It aborts them after the decision, by the names noted before. They cannot belong to a later batch, since no other driver
could have committed this batch in between.

The remaining risk is time. A broker aborts a transaction that is open for longer than `kafka.transaction.timeout.ms`
(10 minutes here unless set; brokers allow 15 by default, `transaction.max.timeout.ms`). If a batch takes longer, it
fails, and nothing of it is visible. If the driver dies in the milliseconds between the decision and the commits, and
the query is not restarted within this time, the transactions that were not committed are lost. If all are lost, the
batch is written again; otherwise the query fails with a BatchError that says so: nothing is lost silently. A batch job
is not run again: the next job with the same prefix finishes what was decided.
"""

import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from client.producer.prepared_transaction import PreparedTransaction
from client.producer.producer import Producer
from spark_connector.batch_commit import abort_batch, commit_batch
from spark_connector.delivery import Delivery
from spark_connector.errors import BatchError
from spark_connector.event_loop import run
from spark_connector.row_sender import RowSender
from spark_connector.sink_columns import SinkColumns
from spark_connector.sink_options import SinkOptions
from spark_connector.worker_producers import open_producer

_ABORT_TIMEOUT_S = 5.0


@dataclass
class TransactionWritten(WriterCommitMessage):
    """A task's message to the driver: the query, the number of rows, the transaction (None without rows)."""

    query: str
    count: int
    transaction: PreparedTransaction | None


@dataclass
class _Task:
    """The identity of a task. `run` distinguishes the runs of a query; both are random."""

    query: str
    run: str
    partition: int
    attempt: int


class TransactionalDelivery(Delivery):
    """Delivers rows as records, exactly once."""

    def __init__(self, options: SinkOptions, columns: SinkColumns, *, is_stream: bool) -> None:
        assert options.prefix is not None
        self._options = options
        self._columns = columns
        self._prefix = options.prefix
        # A batch job is its own query; the id is pickled, so tasks and driver have the same.
        self._job = None if is_stream else str(uuid.uuid4())

    def write(self, batches: Iterator[pa.RecordBatch]) -> TransactionWritten:
        """See Delivery."""
        task = _this_task(self._job)
        name = f"{self._prefix}-{task.run}-{task.partition}-{task.attempt}"
        producer: Producer | None = None
        sender: RowSender | None = None
        transaction: PreparedTransaction | None = None
        try:
            for batch in batches:
                if sender is None:
                    producer = run(_open(self._options, name))
                    sender = RowSender(producer, self._columns)
                run(sender.send(batch))
            if sender is not None and producer is not None:
                run(sender.finish())
                transaction = run(producer.prepare_transaction())
        finally:
            if sender is not None and transaction is None:
                run(sender.abandon())
            if producer is not None:
                run(producer.close(_ABORT_TIMEOUT_S))
        return TransactionWritten(task.query, 0 if sender is None else sender.count, transaction)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """See Delivery. Raises BatchError, ProducerFencedError, and the cluster's errors."""
        told = _told(messages)
        queries = {one.query for one in told}
        if not queries:
            return  # a batch without tasks
        if len(queries) > 1:
            raise BatchError(f"batch {batch_id} was written by tasks of several queries: {', '.join(sorted(queries))}")
        transactions = [one.transaction for one in told if one.transaction is not None]
        run(commit_batch(self._options.client, self._prefix, queries.pop(), batch_id, transactions))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """See Delivery."""
        run(abort_batch(self._options.client, self._prefix))


def _told(messages: Sequence[WriterCommitMessage | None]) -> list[TransactionWritten]:
    return [one for one in messages if isinstance(one, TransactionWritten)]


async def _open(options: SinkOptions, name: str) -> Producer:
    producer = await open_producer({**options.client, "transactional_id": name})
    await producer.begin_transaction()
    return producer


def _this_task(job: str | None) -> _Task:
    context = TaskContext.get()
    assert context is not None
    # StreamExecution sets these for every batch: the id of the query, which its checkpoint keeps, and that of this run.
    query = context.getLocalProperty("sql.streaming.queryId") if job is None else job
    group = context.getLocalProperty("spark.jobGroup.id") if job is None else job
    if not query or not group:
        raise BatchError("Spark does not say which query this task belongs to")
    token = re.sub("[^0-9a-f]", "", group.lower())[:12].rjust(12, "0")
    return _Task(query, token, context.partitionId(), context.attemptNumber())
