"""The rebalance of Kafka 0.8: how a ZooKeeper consumer acquires and releases its partitions.

    stop → listener, commit → release → assign → claim → offsets → fetch

Each consumer of the group rebalances by itself when its view (`GroupView`) changes. There is no coordinator, so
consumers may have different views for a moment, and a consumer may want a partition that another has not released yet.
Then it releases everything, waits until this owner has released the partition or `rebalance_backoff_ms` is over, reads
the view and tries again. In the end all views are equal, because each change fires a watch of every consumer.

The stop precedes the commit, the commit precedes the release, and offsets are read after the claim: so the next owner
starts where the previous owner stopped handing out records. A read from ZooKeeper after a claim returns at least the
state of the release that made the claim possible, because a server answers a write after it has applied all writes
before it. (0.8 reads the offsets before the claim, when the previous owner may not have committed yet.)
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress

from client.errors import KafkaError, RebalanceFailedError
from client.topic_partition import TopicPartition
from client.wire.backoff import Backoff, Retries
from client.zookeeper.assignment import ConsumerThread, GroupView, assignment_of
from client.zookeeper.group import ZooKeeperGroup
from client.zookeeper.offsets import GroupOffsets
from client.zookeeper.partitions import OwnedPartitions
from client.zookeeper.stream import ConsumerStream
from registry.errors import (
    ConnectionLossError,
    RegistryClosedError,
    RegistryError,
    SessionExpiredError,
)
from registry.interface import ConnectionState
from registry.zookeeper.registry import ZooKeeperRegistry

logger = logging.getLogger(__name__)


class ZooKeeperRebalanceListener:
    """Called when partitions are acquired or released; override the methods you need. Meanwhile no records are handed
    out.

    An exception fails the attempt; the next call for a record raises it.
    """

    async def before_releasing_partitions(self, partitions: Sequence[TopicPartition]) -> None:
        """The partitions will be released after this call, and read by others: finish the records in hand, and commit
        if auto commit is off. With auto commit, all returned records are committed after this call.
        """

    async def before_starting_fetchers(self, partitions: Mapping[TopicPartition, str]) -> None:
        """The partitions are acquired; their values are the ids of the threads that read them."""

    async def partitions_lost(self, partitions: Sequence[TopicPartition]) -> None:
        """The session has expired: others may own these partitions and read them already, and nothing can be
        committed.
        """


class Rebalancer:
    """The rebalances of one consumer, one after the other."""

    def __init__(
        self,
        registry: ZooKeeperRegistry,
        group: ZooKeeperGroup,
        partitions: OwnedPartitions,
        offsets: GroupOffsets,
        *,
        max_retries: int,
        backoff_s: float,
        session_backoff: Backoff,
        listener: ZooKeeperRebalanceListener,
        stream_of: Callable[[str, ConsumerThread], ConsumerStream],
        commit: Callable[[], Awaitable[None]],
        on_brokers: Callable[[GroupView], None],
        on_session: Callable[[], Awaitable[None]],
        on_error: Callable[[BaseException], None],
    ) -> None:
        """`commit` is called before partitions are released, and must not raise; `on_session` proves a new session."""
        self._registry = registry
        self._group = group
        self._partitions = partitions
        self._offsets = offsets
        self._max_retries = max_retries
        self._backoff_s = backoff_s
        self._session_backoff = session_backoff
        self._listener = listener
        self._stream_of = stream_of
        self._commit = commit
        self._on_brokers = on_brokers
        self._on_session = on_session
        self._on_error = on_error
        self._changed = asyncio.Event()
        # The view that the owned partitions were assigned from; None while this consumer owns nothing.
        self._settled: GroupView | None = None
        self._lost: list[TopicPartition] = []
        self.count = 0

    def request(self) -> None:
        """Check the group's view again: it may have changed."""
        self._changed.set()

    def session_lost(self) -> None:
        """Drop all partitions at once: the session has expired."""
        self._lost += self._partitions.drop()
        self._group.forget()
        self._settled = None
        self._changed.set()

    async def run(self, started: "asyncio.Future[None]") -> None:
        """Rebalance on every request, until cancelled. `started` gets the outcome of the first rebalance."""
        self._changed.set()
        while True:
            await self._changed.wait()
            try:
                if self._registry.state is ConnectionState.EXPIRED:
                    await self._begin_session()
                await self._rebalance()
            except SessionExpiredError:
                self._changed.set()
                await asyncio.sleep(0)
                continue
            except RegistryClosedError:
                return
            except Exception as error:
                if not started.done():
                    started.set_exception(error)
                    return
                logger.warning("consumer %s reads nothing: %s", self._group.consumer_id, error)
                self._on_error(error)
                await asyncio.sleep(self._backoff_s)
                self._changed.set()
            else:
                if not started.done():
                    started.set_result(None)

    async def _begin_session(self) -> None:
        """Open a new session after the old one has expired, and register again."""
        lost, self._lost = self._lost, []
        logger.warning("the session of consumer %s has expired: opening a new one", self._group.consumer_id)
        if lost:
            await self._listener.partitions_lost(lost)
        retries = Retries(self._session_backoff)
        while self._registry.state is ConnectionState.EXPIRED:
            try:
                await self._registry.start()
            except (ConnectionLossError, SessionExpiredError) as error:
                logger.warning("%s; trying again", error)
                await retries.wait()
        await self._group.register()
        await self._on_session()

    async def _rebalance(self) -> None:
        """Acquire the partitions of the current view. Raises RebalanceFailedError, or the exception of a listener."""
        attempt = 0
        tried: GroupView | None = None
        while True:
            self._changed.clear()
            reason, taken = "", []
            try:
                view = await self._group.view()
                if view == self._settled:
                    return
                if view != tried:  # the group has changed: this is another rebalance
                    attempt, tried = 0, view
                taken = await self._attempt(view)
                if not taken:
                    return
                reason = f"{len(taken)} partitions still have other owners, {taken[0]} among them"
            except (SessionExpiredError, RegistryClosedError):
                raise
            except (RegistryError, KafkaError) as error:
                reason = str(error)
                await self._group.release()
            attempt += 1
            logger.info("consumer %s, attempt %d to rebalance: %s", self._group.consumer_id, attempt, reason)
            if attempt > self._max_retries:
                raise RebalanceFailedError(
                    f"consumer {self._group.consumer_id} did not get its partitions in {attempt} attempts: {reason}"
                )
            await self._wait_until_released(taken, tried)

    async def _attempt(self, view: GroupView) -> list[str]:
        """Try once. Return an empty list on success; else the other owners' nodes, and this consumer owns nothing."""
        session_id = self._registry.session_id
        self.count += 1
        await self.let_go()
        if self._group.consumer_id not in view.threads:  # our node was deleted
            await self._group.register()
            self._changed.set()
            return []
        self._on_brokers(view)
        wanted = assignment_of(self._group.consumer_id, view) if view.brokers else {}
        names = view.names(wanted)
        taken = await self._group.claim(wanted, names) if wanted else []
        if taken:
            return taken
        offsets = await self._offsets.fetch(names)
        await self._listener.before_starting_fetchers({name: str(thread) for name, thread in wanted.items()})
        # Nothing is awaited between this check and the start, so the session of the claim is the one that reads.
        if self._registry.session_id != session_id or self._registry.state is ConnectionState.EXPIRED:
            raise SessionExpiredError("the session has expired")
        streams = {name: self._stream_of(name.topic, thread) for name, thread in wanted.items()}
        self._partitions.start(streams, offsets)
        self._settled = view
        logger.info(
            "consumer %s reads %s", self._group.consumer_id, ", ".join(map(str, wanted)) if wanted else "no partition"
        )
        return []

    async def let_go(self) -> None:
        """Stop handing out and fetching, commit, and release all partitions."""
        self._settled = None
        self._partitions.stop()
        names = self._partitions.names()
        if names:
            await self._listener.before_releasing_partitions(names)
            await self._commit()
        self._partitions.drop()
        await self._group.release()

    async def _wait_until_released(self, owners: Sequence[str], view: GroupView | None) -> None:
        """Wait for the backoff, or until all these owner nodes are deleted or the group has changed."""
        watches = self._group.watch_owners(owners, self._changed.set)
        with suppress(TimeoutError):
            try:
                async with asyncio.timeout(self._backoff_s):
                    while not owners or await self._group.still_owned(owners):
                        await self._changed.wait()
                        self._changed.clear()
                        if await self._group.view() != view:
                            break
            finally:
                for watch in watches:
                    watch.cancel()
