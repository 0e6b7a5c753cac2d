"""Exactly once: a batch of a stream, or a batch job, is visible to read_committed as a whole and once, or not at all.

Two phases, with a decision in between that is written down in the cluster (`spark_connector.commit_ledger`):

1. Each task writes its rows in a transaction of its own and does not end it. What it tells the driver is its name
   (transactional id, producer id, epoch).
2. When all tasks are done the driver opens the ledger, looks whether this batch was decided before, and if not writes
   the decision: batch and names. Then it commits all these transactions, which takes milliseconds.

It does not matter which row went to which task, so a batch that is run again may be distributed otherwise. Where it
ends early:

- before the decision: no row counts. The batch is run again; the first commit after that aborts what was left open.
- after it, whether or not transactions are ended: the batch counts. When it is run again, what its tasks write anew is
  aborted, and the driver commits the transactions that the ledger names, which may be done twice.
- a driver that was thought dead and goes on: opening the ledger has fenced it, so of two commits of a batch one
  decides, and the other finds that. The transactional ids `<prefix>-<run>-<partition>-<attempt>` are those of one run
  of a query and one attempt, so no task ever fences what another run, or another attempt of it, has written.

Before it decides the driver asks whether all transactions are still open under their epochs, and notes which others of
this prefix are: attempts that failed, duplicates of speculation, what an earlier run has left. They are aborted after
the decision, by names that were noted before it: they are not of a batch to come, since no other driver could
have committed this one in between.

The one thing that can go wrong is time. A broker aborts a transaction that is open for longer than
`kafka.transaction.timeout.ms` (10 minutes here unless set; brokers allow 15 by default, `transaction.max.timeout.ms`).
If a batch takes longer, it fails, and nothing of it is visible. If the driver dies in the milliseconds between the
decision and the ends, and the query is not started again for so long, then what was not ended is gone. If that is all
of it, the batch is written anew; otherwise the query fails with BatchError, which says so: nothing is lost silently.
Batch jobs have no run that comes again: their next job with the same prefix finishes what is decided.
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
    """What a task tells the driver: of which query, how many rows, in which transaction (None without rows)."""

    query: str
    count: int
    transaction: PreparedTransaction | None


@dataclass
class _Task:
    """Which task this is. `run` tells the runs of a query apart; both are random."""

    query: str
    run: str
    partition: int
    attempt: int


class TransactionalDelivery(Delivery):
    """Rows to records, exactly once."""

    def __init__(self, options: SinkOptions, columns: SinkColumns, *, is_stream: bool) -> None:
        assert options.prefix is not None
        self._options = options
        self._columns = columns
        self._prefix = options.prefix
        # A batch job is its own query; it is pickled, so tasks and driver have the same.
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
        """See Delivery. Raises BatchError, ProducerFencedError, and what the cluster says."""
        told = _told(messages)
        queries = {one.query for one in told}
        if not queries:
            return  # a batch without a single task
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
    # What StreamExecution sets for every batch: the id of the query, which its checkpoint keeps, and that of this run.
    query = context.getLocalProperty("sql.streaming.queryId") if job is None else job
    group = context.getLocalProperty("spark.jobGroup.id") if job is None else job
    if not query or not group:
        raise BatchError("Spark does not say which query this task belongs to")
    token = re.sub("[^0-9a-f]", "", group.lower())[:12].rjust(12, "0")
    return _Task(query, token, context.partitionId(), context.attemptNumber())
