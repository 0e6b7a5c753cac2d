"""Sends batches to the leaders of their partitions.

There is no task for each request or broker: `_pump` is a plain function that checks every partition with records to
send and writes the batches that can be written now. It runs, at most once per turn of the event loop, after everything
that could make a batch ready: a record, an answer, a connection, new metadata, the end of a linger or retry delay. So
all records appended in one turn of the loop are sent together even with `linger_ms=0`.

Several batches of a partition may be in flight (`accumulator` says how they keep their order): over a link with 5 ms
latency, one at a time is 64 KiB every 10 ms. Only full batches follow a batch in flight, so that over a fast link, too,
requests are as few and as large as the pace of the answers allows.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from client.errors import DeliveryTimeoutError, KafkaError, MalformedResponseError, RequestTimeoutError, error_for
from client.producer.accumulator import MAX_IN_FLIGHT_PER_PARTITION, Batch, PartitionQueue
from client.producer.identity import NONE, ProducerIdentity
from client.producer.options import ProducerOptions
from client.producer.transaction_manager import TransactionManager
from client.topic_partition import TopicPartition
from client.wire.backoff import Retries
from client.wire.cluster import Cluster
from client.wire.connection import Connection
from protocol.compression import CompressionType
from protocol.error_codes import ErrorCode
from protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from protocol.record_batch_builder import RecordBatchBuilder

# The first versions with record batches of version 2 and with zstd.
MIN_PRODUCE_VERSION = 3
MIN_ZSTD_VERSION = 7

_OUT_OF_ORDER = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)

_Sent = dict[TopicPartition, tuple[PartitionQueue, Batch]]


class Sender:
    """Owns the partitions' queues and the batches in flight. `on_done` is called for every batch that has ended."""

    def __init__(
        self,
        cluster: Cluster,
        options: ProducerOptions,
        transactions: TransactionManager | None,
        *,
        on_done: Callable[[Batch], None],
    ) -> None:
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        # How many flushes wait; while any does, batches do not linger.
        self.waiting_flushes = 0
        self._cluster = cluster
        self._options = options
        self._acks = options.required_acks
        self._new_builder = partial(
            RecordBatchBuilder,
            compression=options.compression,
            level=options.compression_level,
            transactional=transactions is not None,
        )
        self._linger_s = options.linger_ms / 1000
        self._max_in_flight = options.max_in_flight_requests_per_connection
        self._max_in_queue = min(self._max_in_flight, MAX_IN_FLIGHT_PER_PARTITION) if options.idempotent else 1
        self._delivery_timeout_s = options.delivery_timeout_ms / 1000
        self._idempotent = options.idempotent
        self._transactions = transactions
        self._identity = (
            transactions.identity
            if transactions is not None
            else ProducerIdentity(
                cluster,
                request_timeout_ms=options.request_timeout_ms,
                on_known=self.wake,
                on_error=self._no_identity,
            )
        )
        self._on_done = on_done
        # Partitions that may have something to send, in the order in which they were added.
        self._waiting: dict[TopicPartition, PartitionQueue] = {}
        self._in_flight: dict[int, int] = {}
        self._connecting: set[int] = set()
        self._draining: set[int] = set()
        self._connect_retries = defaultdict[int, Retries](cluster.retries)
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        cluster.metadata_listeners.append(self.wake)

    def queue(self, partition: TopicPartition) -> PartitionQueue:
        """The queue of a partition."""
        found = self.queues.get(partition)
        if found is None:
            found = self.queues[partition] = PartitionQueue(partition, self._new_builder)
        return found

    def batch_begun(self, queue: PartitionQueue) -> None:
        """A batch was added to a queue: this batch may be sent, or the one before it, which is full now."""
        self._waiting.setdefault(queue.partition, queue)
        self.wake()

    def wake(self) -> None:
        """Run `_pump` in this or the next turn of the event loop."""
        if not self._scheduled and not self._closed:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._pump)

    def wake_all(self) -> None:
        """Run `_pump` for every partition, after a change that concerns all (flush)."""
        for queue in self.queues.values():
            if len(queue.batches) > queue.in_flight:
                self._waiting.setdefault(queue.partition, queue)
        self.wake()

    def close(self, error: KafkaError) -> None:
        """Stop sending and fail all batches that are left."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for queue in self.queues.values():
            while queue.batches:
                self._end(queue.batches.popleft(), error)

    def abandon(self, error: KafkaError) -> None:
        """Fail every batch that is not in flight; a batch in flight fails if it would have to be retried."""
        for queue in self.queues.values():
            for batch in [batch for batch in queue.batches if not batch.in_flight]:
                self._fail(queue, batch, error)

    def pending_batches(self) -> list[Batch]:
        """All batches that are not acknowledged yet."""
        return [batch for queue in self.queues.values() for batch in queue.batches]

    def retried_error(self) -> KafkaError | None:
        """The last error of the oldest batch that failed and is to be sent again; None if there is none."""
        failed = [batch for batch in self.pending_batches() if batch.last_error is not None]
        return min(failed, key=lambda batch: batch.created_at).last_error if failed else None

    # ---- sending

    def _pump(self) -> None:
        self._scheduled = False
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        now = loop.time()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._waiting:
            return
        if self._idempotent and self._identity.current == NONE and self._transactions is None:
            self._identity.fetch()
        ready, wake_at = self._ready_by_leader(now)
        for node_id, queues in ready.items():
            self._send_to(node_id, queues)
        if wake_at != float("inf"):
            self._timer = loop.call_at(wake_at, self._pump)

    def _ready_by_leader(self, now: float) -> tuple[dict[int, list[PartitionQueue]], float]:
        """The queues that can be sent now, by leader, and the time of the next check if nothing happens before."""
        metadata = self._cluster.metadata
        can_send = not self._idempotent or self._identity.current != NONE
        ready: dict[int, list[PartitionQueue]] = {}
        wake_at = float("inf")
        leader_missing = False
        for queue in list(self._waiting.values()):
            batch = self._next_batch(queue)
            if batch is None:
                del self._waiting[queue.partition]  # an answer adds it again
                continue
            if not queue.in_flight:  # else the requests in flight have a timeout, and each answer checks again
                deadline = batch.created_at + self._delivery_timeout_s
                if now >= deadline:
                    self._expire(queue, batch)
                    wake_at = now
                    continue
                wake_at = min(wake_at, deadline)
            at = queue.retry_at
            if not (self.waiting_flushes or len(queue.batches) > queue.in_flight + 1 or batch.data is not None):
                at = max(at, batch.created_at + self._linger_s)
            if at > now:
                wake_at = min(wake_at, at)
                continue
            if not can_send:
                continue
            leader = metadata.leader(queue.partition)
            if leader is None:
                leader_missing = True
                continue
            if self._transactions is None or self._transactions.holds(queue.partition):
                ready.setdefault(leader, []).append(queue)
        if leader_missing:
            self._cluster.request_refresh()
        return ready, wake_at

    def _next_batch(self, queue: PartitionQueue) -> Batch | None:
        return queue.next_batch(self._max_in_queue, self._identity.current, flushing=self.waiting_flushes > 0)

    def _send_to(self, node_id: int, queues: list[PartitionQueue]) -> None:
        connection = self._cluster.open_connection(node_id)
        if connection is None:
            if node_id not in self._connecting:
                self._connecting.add(node_id)
                self._cluster.background.spawn(self._connect(node_id), f"connect to node {node_id}")
            return
        while self._in_flight.get(node_id, 0) < self._max_in_flight:
            if connection.is_congested:
                if node_id not in self._draining:
                    self._draining.add(node_id)
                    drained = self._wait_writable(node_id, connection)
                    self._cluster.background.spawn(drained, f"write to node {node_id}")
                return
            size = 0
            chosen: list[tuple[PartitionQueue, Batch]] = []
            left: list[PartitionQueue] = []
            for queue in queues:
                # The old leader must answer first: the new leader could get later batches before earlier ones.
                batch = self._next_batch(queue) if queue.may_go_to(node_id) else None
                if batch is None:
                    self._waiting.pop(queue.partition, None)
                elif chosen and size + batch.size > self._options.max_request_size:
                    left.append(queue)
                else:
                    size += batch.size
                    chosen.append((queue, batch))
            if not chosen:
                return
            self._send(node_id, connection, chosen)
            queues = left + [queue for queue, _ in chosen]

    def _send(self, node_id: int, connection: Connection, chosen: list[tuple[PartitionQueue, Batch]]) -> None:
        topics: dict[str, list[PartitionProduceData]] = {}
        sent: _Sent = {}
        try:
            version = connection.common_version(ProduceRequest)
            needed = MIN_ZSTD_VERSION if self._options.compression == CompressionType.ZSTD else MIN_PRODUCE_VERSION
            if version < needed:
                raise error_for(ErrorCode.UNSUPPORTED_VERSION, f"Produce version {needed} is needed")
        except KafkaError as error:
            for queue, batch in chosen:
                self._fail(queue, batch, error)
            return
        for queue, batch in chosen:
            if queue.is_refused:
                queue.number_anew(self._identity.current)
            data = queue.build(batch, self._identity.current)
            topic, number = queue.partition
            topics.setdefault(topic, []).append(PartitionProduceData(index=number, records=data))
            sent[queue.partition] = (queue, batch)
            queue.sent(batch)
            if len(queue.batches) == queue.in_flight:
                self._waiting.pop(queue.partition, None)
        request = ProduceRequest(
            transactional_id=None if self._transactions is None else self._transactions.transactional_id,
            acks=self._acks,
            timeout_ms=self._options.request_timeout_ms,
            topic_data=[TopicProduceData(name=name, partition_data=data) for name, data in topics.items()],
        )
        if self._acks == 0:
            try:
                connection.send_no_reply(request, version)
            except KafkaError as error:
                self._failed(sent, error)
                return
            for queue, batch in sent.values():
                queue.answered(batch)
                self._succeed(queue, batch, -1, -1)
            return
        self._in_flight[node_id] = self._in_flight.get(node_id, 0) + 1
        # At most until the youngest record expires: no caller waits for a later answer.
        now = asyncio.get_running_loop().time()
        left_s = max(batch.created_at for _, batch in sent.values()) + self._delivery_timeout_s - now
        timeout_s = min(self._options.request_timeout_s, max(left_s, 0.0))
        future = connection.submit(request, ProduceResponse, version, timeout_s=timeout_s)
        future.add_done_callback(partial(self._answered, node_id, sent))

    # ---- answers

    def _answered(self, node_id: int, sent: _Sent, future: "asyncio.Future[ProduceResponse]") -> None:
        self._in_flight[node_id] -= 1
        error = future.exception()
        if error is not None:
            if not isinstance(error, KafkaError):
                error = MalformedResponseError("node", node_id, str(error))
            self._failed(sent, error)
            return
        for topic in future.result().responses:
            for answer in topic.partition_responses:
                found = sent.pop(TopicPartition(topic.name, answer.index), None)
                if found is not None:
                    found[0].answered(found[1])
                    self._partition_answered(*found, answer)
        if sent:
            self._failed(sent, error_for(ErrorCode.UNKNOWN_SERVER_ERROR, "the answer lacks a partition"))
        self.wake()

    def _partition_answered(self, queue: PartitionQueue, batch: Batch, answer: PartitionProduceResponse) -> None:
        code = answer.error_code
        if code == ErrorCode.NONE:
            self._succeed(queue, batch, answer.base_offset, answer.log_append_time_ms)
        elif code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            # An earlier attempt was written and its answer was lost; the broker no longer knows the offset.
            self._succeed(queue, batch, -1, -1)
        else:
            message = answer.error_message or "; ".join(
                f"record {record.batch_index}: {record.batch_index_error_message}" for record in answer.record_errors
            )
            if code == ErrorCode.MESSAGE_TOO_LARGE and batch.data is not None:  # brokers give no message
                message = message or f"the batch has {len(batch.data)} bytes"
            error = error_for(code, message, context=str(queue.partition))
            if code in _OUT_OF_ORDER:
                self._refused(queue, batch, error)
            elif code == ErrorCode.MESSAGE_TOO_LARGE and queue.can_split(batch):
                queue.split(batch)
                self._waiting.setdefault(queue.partition, queue)
            elif error.retriable:
                self._retry(queue, batch, error)
            else:
                self._fail(queue, batch, error)

    def _refused(self, queue: PartitionQueue, batch: Batch, error: KafkaError) -> None:
        """Handle an out-of-order batch; see the rules in `client.producer.accumulator`."""
        if batch.is_written:
            self._succeed(queue, batch, -1, -1)
            return
        if not queue.refuse(batch):
            self._retry(queue, batch, error)
            return
        batch.last_error = error
        if not queue.is_refused:
            self._waiting.setdefault(queue.partition, queue)
        elif self._transactions is not None:
            self._fail(queue, queue.batches[0], error)  # the missing records may belong to this transaction
        else:
            self._identity.renew(batch.producer)
            for doubtful in queue.doubtful():
                message = "an earlier batch failed, and whether this one was written is unknown"
                code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                self._fail(queue, doubtful, error_for(code, message, context=str(queue.partition)))
            self._wait_to_retry(queue, batch)

    def _failed(self, sent: _Sent, error: KafkaError) -> None:
        for queue, batch in sent.values():
            queue.answered(batch)
            batch.is_unanswered = True
            if error.retriable and self._acks != 0:
                self._retry(queue, batch, error)
            else:
                self._fail(queue, batch, error)
        self.wake()

    def _succeed(self, queue: PartitionQueue, batch: Batch, base_offset: int, log_append_time: int) -> None:
        queue.known_producer = batch.producer
        if not queue.retrying:
            queue.retry_at = 0.0
        for earlier in queue.written_before(batch):
            self._succeed(queue, earlier, -1, -1)
        self._remove(queue, batch)
        batch.succeed(queue.partition, base_offset, log_append_time)
        self._on_done(batch)

    def _retry(self, queue: PartitionQueue, batch: Batch, error: KafkaError) -> None:
        if self._transactions is not None and self._transactions.is_failing:
            self._fail(queue, batch, error)
            return
        if batch.last_error is None or not isinstance(error, RequestTimeoutError):
            batch.last_error = error  # a broker's error says more than another timeout
        queue.retrying = queue.in_flight > 0
        queue.refused = 0
        self._wait_to_retry(queue, batch)
        if error.code is None or error.code.invalid_metadata:
            self._cluster.request_refresh()

    def _wait_to_retry(self, queue: PartitionQueue, batch: Batch) -> None:
        delay_s = self._cluster.backoff.delay_s(batch.attempts - 1)
        queue.retry_at = asyncio.get_running_loop().time() + delay_s
        if queue.batches:  # else close() has removed them
            self._waiting.setdefault(queue.partition, queue)

    def _fail(self, queue: PartitionQueue, batch: Batch, error: KafkaError) -> None:
        self._remove(queue, batch)
        self._end(batch, error)
        if self._transactions is not None:
            self._transactions.batch_failed(error, was_sent=batch.attempts > 0)
        elif batch.attempts:
            # Whether its sequence numbers are used is unknown; if it arrives after later batches, it must be refused.
            queue.gap = batch.producer
            self._identity.renew(batch.producer)

    def _expire(self, queue: PartitionQueue, batch: Batch) -> None:
        reason = f": {batch.last_error}" if batch.last_error is not None else ""
        message = f"{queue.partition}: not acknowledged within {self._delivery_timeout_s:g} s{reason}"
        self._fail(queue, batch, DeliveryTimeoutError(message))

    def _end(self, batch: Batch, error: KafkaError) -> None:
        batch.fail(error)
        self._on_done(batch)

    def _remove(self, queue: PartitionQueue, batch: Batch) -> None:
        queue.remove(batch)
        if len(queue.batches) > queue.in_flight:
            self._waiting.setdefault(queue.partition, queue)
        else:
            self._waiting.pop(queue.partition, None)

    # ---- tasks that wait

    async def _connect(self, node_id: int) -> None:
        if self._acks == 0 and self._cluster.has_lost(node_id):
            # With acks=0 a broker can report an error only by closing the connection; it may have lost the leadership.
            self._cluster.request_refresh()
        try:
            await self._cluster.connection(node_id)
            self._connect_retries.pop(node_id, None)
        except KafkaError as error:
            for queue in self._waiting.values():
                if self._cluster.metadata.leader(queue.partition) == node_id:
                    queue.batches[0].last_error = error
            self._cluster.request_refresh()
            await self._connect_retries[node_id].wait()
        finally:
            self._connecting.discard(node_id)
        self.wake()

    async def _wait_writable(self, node_id: int, connection: Connection) -> None:
        with suppress(KafkaError):
            await connection.drain()
        self._draining.discard(node_id)
        self.wake()

    def _no_identity(self, error: KafkaError) -> None:
        for queue in list(self._waiting.values()):
            if error.retriable:
                queue.batches[0].last_error = error
            elif not queue.in_flight:
                self._fail(queue, queue.batches[0], error)
