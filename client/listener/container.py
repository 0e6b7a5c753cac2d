"""The listener container: passes a consumer's records to a function, and commits them when they are handled.

    async def handler(record):
        ...

    consumer = Consumer("orders", bootstrap_servers=..., group_id="billing", enable_auto_commit=False)
    async with consumer, ListenerContainer(consumer, handler, concurrency=16) as container:
        await container.run()

Delivery is at least once: an offset is committed only when all earlier records of its partition are handled.

One task polls all the time, so the member stays in the group however long handlers take. Records that wait for a
handler are in a queue for each partition; when it is full, the partition is paused until half of it is handled.

When a partition is revoked, waiting records are dropped, and running handlers get `drain_timeout_s` to finish before
they are cancelled. Handled records are committed; the next owner reads the others again. When a partition is lost, all
handlers are cancelled, and nothing is committed.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Sequence
from functools import partial
from typing import Any, Self, Unpack

from client.background import Background
from client.consumer.fetched import ConsumerRecord
from client.consumer.rebalance_listener import RebalanceListener, call
from client.consumer.record_source import RecordSource
from client.errors import ClosedError, IllegalStateError, KafkaError
from client.listener.ack_mode import AckMode, Acknowledgment
from client.listener.error_handlers import ErrorHandler, Retry
from client.listener.options import ContainerKeywords, ContainerOptions
from client.listener.partition_runner import PartitionRunner
from client.listener.partition_work import PartitionWork, WorkItem
from client.listener.rate_limit import RateLimit
from client.listener.work_committer import WorkCommitter
from client.options import refuse, refuse_unknown, shows
from client.topic_partition import TopicPartition
from client.wire.backoff import Backoff, Retries

logger = logging.getLogger(__name__)

Handler = Callable[..., Awaitable[object] | object]
"""A function of a record, or with `batch` of a list; in the manual modes also of an `Acknowledgment`."""


class ListenerContainer:
    """Runs `handler` on the records of a consumer; an asynchronous context manager.

    `consumer`: a started `Consumer` with a group and `enable_auto_commit=False`, or a wrapper of one. The caller closes
    it; while the container runs, only the container may poll, pause, seek and commit. Its `rebalance_listener` is kept
    and called, too.

    `handler`: an async function, or a plain function, which runs in a thread. It gets a ConsumerRecord; with `batch` a
    list of the records of one poll and partition; in the manual modes also an `Acknowledgment` (async handlers only).
    Its result is ignored. A thread cannot be cancelled: the drain ends without it.

    Options:

    - `ack_mode`, `ack_count`, `ack_time_ms`: when to commit.
    - `concurrency`: how many records of one partition are handled at the same time. With 1 each partition is handled in
      order; with more, records with the same key are, and records without a key have no order. `order_by`: a function
      of a record that returns a hashable key to use instead (None: no order).
    - `queue_size`: the most records of a partition that are fetched and not handled. In the manual modes, records that
      are not acknowledged count, too: a handler that never acknowledges eventually stops its partition.
    - `error_handler`: decides about records whose handler raises; `Retry()` tries ten times in all, then stops.
    - `rate_limit`: a `RateLimit`; records wait for it before their handler starts.
    - `drain_timeout_s`: how long handlers may take to finish at a rebalance and at the end. It must be well below the
      consumer's `max_poll_interval_ms`, for which the group waits.

    Raises InvalidOptionError; IllegalStateError for a consumer without a group.
    """

    @shows(ContainerOptions)
    def __init__(self, consumer: RecordSource, handler: Handler, **keywords: Unpack[ContainerKeywords]) -> None:
        refuse_unknown(keywords, ListenerContainer)
        self._options = options = ContainerOptions(**keywords)
        if consumer.enable_auto_commit:
            raise refuse("enable_auto_commit", True, "must be False: the listener container commits")
        self._is_async = _is_async(handler)
        if options.ack_mode.is_manual and not self._is_async:
            raise refuse("ack_mode", options.ack_mode, "needs an async handler: acknowledging is async")
        self._listener_before = consumer.rebalance_listener
        self._consumer = consumer
        self._handler = handler
        self._order_by = options.order_by or _key_of
        self._error_handler: ErrorHandler = Retry() if options.error_handler is None else options.error_handler
        self._runners: dict[TopicPartition, PartitionRunner] = {}
        self._work: dict[TopicPartition, PartitionWork] = {}
        self._committer = WorkCommitter(consumer, self._work, options)
        self._retries = Retries(Backoff())
        self._main: asyncio.Task[None] | None = None
        self._stopping = False
        self._failure: BaseException | None = None

    # ---- start and stop

    async def start(self) -> None:
        """Start the container; `run` does so if necessary. Raises IllegalStateError the second time."""
        self._begin()

    def _begin(self) -> "asyncio.Task[None]":
        if self._main is not None:
            raise IllegalStateError("a listener container can be started only once")
        self._listener_before = self._consumer.rebalance_listener
        self._consumer.rebalance_listener = _Listener(self, self._listener_before)
        self._main = main = asyncio.create_task(self._run(), name="listener container")
        return main

    async def run(self) -> None:
        """Handle records until `stop` or `request_stop`.

        Raises HandlerFailedError or another exception of the error handler, or the consumer's errors; before that the
        container drains and commits as in `stop`.
        """
        main = self._begin() if self._main is None else self._main
        try:
            await asyncio.shield(main)
        except asyncio.CancelledError:
            self.request_stop()
            await asyncio.wait([main])
            if not main.cancelled():
                main.exception()  # mark the exception as retrieved; `stop` raises it
            raise

    def request_stop(self) -> None:
        """Stop without waiting; a handler may call this."""
        self._stopping = True

    async def stop(self) -> None:
        """Start no more handlers, let running handlers finish (for `drain_timeout_s`), and commit what is handled.

        The consumer's positions are set back to the first records that are not handled. Raises the errors of `run`.
        """
        self.request_stop()
        if self._main is not None:
            await asyncio.shield(self._main)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, error_type: type[BaseException] | None, *_: object) -> None:
        try:
            await self.stop()
        except Exception:
            if error_type is None:
                raise

    @property
    def unfinished(self) -> dict[TopicPartition, int]:
        """The number of records fetched and not handled, by partition."""
        return {partition: work.unfinished for partition, work in self._work.items()}

    # ---- polling

    async def _run(self) -> None:
        background = Background(self._fail)
        background.spawn(self._committer.run(), "commits of a listener container")
        try:
            while not self._stopping:
                await self._poll()
            await self._end()
        finally:
            for runner in self._runners.values():
                await runner.drain(0)
            await background.close()
            self._consumer.rebalance_listener = self._listener_before
        if self._failure is not None:
            raise self._failure

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
        self._stopping = True

    async def _poll(self) -> None:
        self._committer.polled()
        try:
            found = await self._consumer.getmany(timeout_ms=self._options.poll_timeout_ms, max_records=self._room())
        except KafkaError as error:
            if not error.retriable:
                self._fail(error)
                return
            delay_s = self._retries.next_delay_s()
            logger.warning("polling failed, retrying in %.3g s: %s", delay_s, error)
            await asyncio.sleep(delay_s)
            return
        except Exception as error:  # from a deserializer
            self._fail(error)
            return
        self._retries.succeeded()
        for partition, records in found.items():
            self._accept(partition, records)

    def _room(self) -> int:
        """How many records fit into every queue; a paused partition counts as half full, as it will be when resumed."""
        size = self._options.queue_size
        half = size - size // 2
        rooms = [half if runner.is_paused else size - runner.work.unfinished for runner in self._runners.values()]
        return min(self._consumer.max_poll_records, size, *rooms)

    def _accept(self, partition: TopicPartition, records: Sequence[ConsumerRecord]) -> None:
        runner = self._runners.get(partition)
        if runner is None:
            work = self._work[partition] = PartitionWork(self._lane_of if self._options.concurrency > 1 else None)
            runner = self._runners[partition] = PartitionRunner(
                partition,
                work,
                concurrency=self._options.concurrency,
                before=None if self._options.rate_limit is None else partial(_wait_for_rate, self._options.rate_limit),
                handle=self._handle,
                failed=self._fail,
            )
        runner.work.add(records, as_one=self._options.batch)
        if runner.work.unfinished >= self._options.queue_size:
            runner.is_paused = True
            self._consumer.pause([partition])
        runner.pump()

    def _lane_of(self, record: ConsumerRecord) -> Hashable:
        key = self._order_by(record)
        return object() if key is None else key

    async def _end(self) -> None:
        """Drain all partitions, and poll meanwhile to stay in the group."""
        self._consumer.pause(self._consumer.assignment())
        ending = asyncio.create_task(self._drain_and_commit(), name="end of a listener container")
        try:
            while not ending.done():
                await self._consumer.getmany(timeout_ms=self._options.poll_timeout_ms)
        except Exception as error:
            if not (isinstance(error, KafkaError) and (error.retriable or isinstance(error, ClosedError))):
                self._fail(error)
        finally:
            await ending
        read = set(self._consumer.assignment())
        for partition in read & self._work.keys():
            first = self._work[partition].first_unfinished
            if first is not None:
                self._consumer.seek(partition, first)
        self._consumer.resume(read)

    async def _drain_and_commit(self) -> None:
        await self._drain(list(self._runners.values()))
        await self._committer.commit_the_rest()

    # ---- handling

    async def _handle(self, runner: PartitionRunner, item: WorkItem) -> None:
        attempt = 0
        while True:
            attempt += 1
            try:
                await self._call(runner, item)
            except Exception as error:
                if await self._error_handler.failed(item.records, error, attempt):
                    continue
                await self._finish(runner, item)  # also in the manual modes, where the handler cannot acknowledge it
                return
            if not self._options.ack_mode.is_manual:
                await self._finish(runner, item)
            return

    async def _call(self, runner: PartitionRunner, item: WorkItem) -> None:
        arguments: list[Any] = [list(item.records) if self._options.batch else item.records[0]]
        if self._options.ack_mode.is_manual:
            arguments.append(Acknowledgment(lambda: self._finish(runner, item, must=True)))
        if self._is_async:
            result = self._handler(*arguments)
        else:
            result = await asyncio.to_thread(self._handler, *arguments)
        if inspect.isawaitable(result):
            await result

    async def _finish(self, runner: PartitionRunner, item: WorkItem, *, must: bool = False) -> None:
        """Note that an item is handled. `must`: raise an error to the handler if it cannot be committed."""
        work = runner.work
        work.finish(item)
        if self._runners.get(runner.partition) is runner:
            if runner.is_paused and not self._stopping and work.unfinished <= self._options.queue_size // 2:
                runner.is_paused = False
                self._consumer.resume([runner.partition])
            self._committer.handled(work, len(item.records))
        elif not must or self._options.ack_mode is not AckMode.MANUAL_IMMEDIATE:
            return
        if self._options.ack_mode in (AckMode.RECORD, AckMode.MANUAL_IMMEDIATE):
            await self._committer.commit(runner.partition, work, must=must)

    # ---- rebalances

    def _assigned(self, partitions: Collection[TopicPartition]) -> None:
        if self._stopping:
            self._consumer.pause(partitions)

    async def _revoked(self, partitions: Collection[TopicPartition]) -> None:
        await self._drain([self._runners[partition] for partition in partitions if partition in self._runners])
        await self._committer.try_to_commit(partitions)
        self._forget(partitions)

    async def _lost(self, partitions: Collection[TopicPartition]) -> None:
        runners = [self._runners[partition] for partition in partitions if partition in self._runners]
        self._forget(partitions)
        await asyncio.gather(*(runner.drain(0) for runner in runners))

    async def _drain(self, runners: Iterable[PartitionRunner]) -> None:
        await asyncio.gather(*(runner.drain(self._options.drain_timeout_s) for runner in runners))

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        for partition in partitions:
            self._runners.pop(partition, None)
            self._work.pop(partition, None)
            self._committer.forget(partition)


class _Listener(RebalanceListener):
    """Calls the container, then the consumer's own listener."""

    def __init__(self, container: ListenerContainer, before: RebalanceListener) -> None:
        self._container = container
        self._before = before

    async def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._container._assigned(partitions)
        await call(self._before.on_partitions_assigned, partitions)

    async def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        await self._container._revoked(partitions)
        await call(self._before.on_partitions_revoked, partitions)

    async def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        await self._container._lost(partitions)
        await call(self._before.on_partitions_lost, partitions)


async def _wait_for_rate(rate_limit: RateLimit, item: WorkItem) -> None:
    await rate_limit.wait(item.records)


def _key_of(record: ConsumerRecord) -> Hashable:
    key: Hashable = record.key
    return key


def _is_async(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004
