"""The consumer whose group is in ZooKeeper: Kafka 0.8's high-level consumer.

    async with ZooKeeperConsumer({"orders": 2}, zookeeper_connect="127.0.0.1:2181", group_id="billing") as consumer:
        async for record in consumer:
            print(record.topic, record.partition, record.offset, record.value)

It finds the brokers in ZooKeeper, shares the partitions with the group's other consumers there (`rebalance`), and keeps
the group's offsets there, in Kafka, or in both. A group of this kind and a group of today's protocol with the same id
do not know of each other. For guarantees, and the advantages of the coordinator, see docs/zookeeper-consumer.md.
"""

import asyncio
import logging
import random as random_module
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final, Unpack

from client.background import Background
from client.consumer.fetched import ConsumerRecord
from client.consumer.reader_state import Position
from client.errors import ClosedError, KafkaError, ZooKeeperSessionError
from client.options import refuse, refuse_unknown, shows
from client.topic_partition import TopicPartition
from client.wire.backoff import Backoff, Retries
from client.wire.cluster import Cluster
from client.zookeeper.assignment import GroupView
from client.zookeeper.committer import ZooKeeperCommitter
from client.zookeeper.group import ZooKeeperGroup
from client.zookeeper.layout import Layout, Legacy07Layout, Member, TodaysLayout
from client.zookeeper.offset_nodes import Legacy07OffsetNodes, OffsetNodes, TodaysOffsetNodes
from client.zookeeper.offsets import GroupOffsets
from client.zookeeper.options import ZooKeeperConsumerKeywords, ZooKeeperConsumerOptions
from client.zookeeper.partitions import OwnedPartitions
from client.zookeeper.rebalance import Rebalancer, ZooKeeperRebalanceListener
from client.zookeeper.session_lease import RENEWALS_PER_TIMEOUT, SessionLease
from client.zookeeper.stream import ConsumerStream, StreamGate
from client.zookeeper.streams import ConsumerStreams
from client.zookeeper.subscription import Subscription, consumer_id_string
from registry.errors import BadArgumentsError, ConnectionLossError, RegistryError, SessionExpiredError
from registry.interface import ConnectionState, Registry
from registry.znodes.tree import LEGACY_07, TODAY
from registry.zookeeper.address import ZooKeeperAddress
from registry.zookeeper.registry import ZooKeeperRegistry

logger = logging.getLogger(__name__)

_PLACES: Final[dict[str, Position]] = {"earliest": "beginning", "latest": "end"}
_LAYOUTS: Final[dict[str, tuple[Callable[[str], Layout], Callable[[Registry, str], OffsetNodes]]]] = {
    TODAY: (TodaysLayout, TodaysOffsetNodes),
    LEGACY_07: (Legacy07Layout, Legacy07OffsetNodes),
}
# After a lost connection: enough time to reconnect.
_HOLD_S: Final = 1.0


class ZooKeeperConsumer:
    """An asyncio consumer whose group is in ZooKeeper; an asynchronous context manager and iterator.

    `topics` are names with their numbers of threads, or only names; or `topic_filter` selects them by a pattern. The
    default number is `threads`. Each thread has a stream (`streams`); iterating over the consumer itself returns the
    records of all streams.

    Options (0.8's names with _ for dots; times in ms, sizes in bytes):

    - `zookeeper_connect`: host:port[,host:port][/chroot]; `zookeeper_connection_timeout_ms`.
    - `zookeeper_ssl_…`, `zookeeper_sasl_…`, `zookeeper_set_acl`: TLS, login and ACLs, as a broker's settings.
    - `zookeeper_session_timeout_ms`: the group notices after this time that a consumer has died.
    - `layout`: "today", or "0.7" for a group in the tree of Kafka 0.7, which brokers publish
      (`ottla.zookeeper.legacy07.chroot`); `zookeeper_connect` ends with its chroot then.
    - `group_id`, `consumer_id`: the consumer's id is both, joined by `_`; the default of `consumer_id` is host, time
      and random digits.
    - `auto_commit_enable`, `auto_commit_interval_ms`.
    - `offsets_storage`: "zookeeper" or "kafka"; `dual_commit_enabled`: both, which is the default of "kafka".
    - `auto_offset_reset`: "smallest" or "largest" (also "earliest", "latest"): where a partition starts that has no
      offset, or an offset that is not in the log.
    - `rebalance_max_retries`, `rebalance_backoff_ms`, `rebalance_listener`.
    - `exclude_internal_topics`: patterns do not match internal topics.
    - `fetch_message_max_bytes`, `fetch_wait_max_ms`, `fetch_min_bytes`: the largest fetch per partition; how long a
      broker waits for how many bytes. `socket_timeout_ms`: of one request; `refresh_leader_backoff_ms`: between
      attempts.
    - `isolation_level`, `fetch_max_bytes`, `max_buffered_bytes`: as for a Reader.

    Raises InvalidOptionError for a value that breaks a rule.
    """

    @shows(ZooKeeperConsumerOptions)
    def __init__(
        self, topics: Mapping[str, int] | Iterable[str] = (), **keywords: Unpack[ZooKeeperConsumerKeywords]
    ) -> None:
        refuse_unknown(keywords, ZooKeeperConsumer)
        self._options = options = ZooKeeperConsumerOptions(**keywords)
        subscription = Subscription(topics, options.topic_filter, options.threads)
        random = options.random if options.random is not None else random_module.Random()
        self.consumer_id = consumer_id_string(options.group_id, options.consumer_id, random)
        self._listener = options.rebalance_listener or ZooKeeperRebalanceListener()
        self._timeout_s = options.socket_timeout_ms / 1000
        self._registry = _registry(options)
        self._backoff = Backoff(random=random)
        self._lease = SessionLease()
        self._gate = StreamGate(self._lease)
        self._background = Background(self._gate.fail)
        reading = options.for_reader(random)
        self._cluster = Cluster(reading, on_error=self._failed)
        self._cluster.bootstrap_servers = []  # later the brokers from ZooKeeper
        self._partitions = OwnedPartitions(self._cluster, self._gate, reading, _PLACES[reading.auto_offset_reset])
        layout, offset_nodes = _LAYOUTS[options.layout]
        self._offsets = GroupOffsets(
            offset_nodes(self._registry, options.group_id),
            self._cluster,
            options.group_id,
            timeout_s=self._timeout_s,
            storage=options.offsets_storage,
            dual_commit=options.dual_commit,
        )
        self._committer = ZooKeeperCommitter(self.consumer_id, self._partitions, self._offsets, self._lease)
        self._records = ConsumerStreams(subscription, self._gate, self._partitions.fetcher.wake)
        self.streams: Mapping[str, tuple[ConsumerStream, ...]] = self._records.by_topic
        """The streams of each topic, one for each thread; with a pattern, streams for all topics under its text."""
        self._started: asyncio.Future[None] | None = None
        self._closing = False
        self._closed = False
        self._group = ZooKeeperGroup(
            self._registry,
            options.group_id,
            self.consumer_id,
            Member(subscription.threads, subscription.pattern),
            layout(options.security_protocol),
            exclude_internal_topics=options.exclude_internal_topics,
            on_change=self._group_changed,
            backoff=self._backoff,
        )
        self._rebalancer = Rebalancer(
            self._registry,
            self._group,
            self._partitions,
            self._offsets,
            max_retries=options.rebalance_max_retries,
            backoff_s=options.rebalance_backoff_ms / 1000,
            session_backoff=self._backoff,
            listener=self._listener,
            stream_of=self._records.of,
            commit=self._commit_before_release,
            on_brokers=self._brokers_known,
            on_session=self._renew_lease,
            on_error=self._gate.fail,
        )

    # ---- start and close

    async def start(self) -> None:
        """Register in the group and get partitions, possibly none. Not needed inside `async with`.

        Raises ZooKeeperSessionError if ZooKeeper cannot be reached, RebalanceFailedError, ConsumerIdInUseError; then
        the consumer is closed.
        """
        try:
            await self._start()
        except BaseException:
            await self._close(commit=False)
            raise

    async def _start(self) -> None:
        try:
            await self._registry.start()
            if await self._registry.exists("/") is None:
                raise ZooKeeperSessionError(
                    f"ZooKeeper has no node for the chroot of {self._options.zookeeper_connect}"
                )
            self._registry.listen(self._session_changed)
            await self._group.register()
            await self._renew_lease()
        except RegistryError as error:
            if self._closing:
                raise ClosedError("the consumer has been closed") from None
            raise ZooKeeperSessionError(str(error)) from error
        self._group.watch()
        self._started = asyncio.get_running_loop().create_future()
        self._background.spawn(self._keep_lease(), "lease of the session")
        self._background.spawn(self._rebalancer.run(self._started), "rebalances")
        if self._closing:
            raise ClosedError("the consumer has been closed")
        await self._started
        if self._options.auto_commit_interval_s is not None:
            self._background.spawn(self._committer.now_and_then(self._options.auto_commit_interval_s), "commits")

    async def __aenter__(self) -> "ZooKeeperConsumer":
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # The record in hand when the program failed is not handled.
        await self._close(commit=True, with_in_hand=kind is None)

    async def close(self) -> None:
        """Stop, commit the returned records (if auto commit is on), and leave the group; streams end."""
        await self._close(commit=True)

    async def _close(self, *, commit: bool, with_in_hand: bool = True) -> None:
        if self._closing:
            return
        self._closing = True
        await self._background.close()
        if self._started is not None and not self._started.done():
            self._started.set_exception(ClosedError("the consumer has been closed"))
        self._partitions.stop()
        self._gate.close()
        self._group.close()
        names = self._partitions.names()
        try:
            if commit and names and self._lease.is_valid:
                # ZooKeeper may be unreachable; then calls wait, and after this time the session has expired anyway.
                async with asyncio.timeout(max(self._registry.session_timeout_ms / 1000, self._timeout_s)):
                    await self._listener.before_releasing_partitions(names)
                    if self._options.auto_commit_interval_s is not None:
                        await self._committer.commit(with_in_hand=with_in_hand)
        except (KafkaError, RegistryError, TimeoutError) as error:
            logger.warning("consumer %s could not commit when it was closed: %s", self.consumer_id, error)
        finally:
            self._closed = True
            self._partitions.drop()
            self._partitions.fetcher.close()
            await self._offsets.close()
            await self._cluster.close()
            await self._registry.close()  # ends the session, and removes the owner nodes and the registration

    # ---- state

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read now, sorted."""
        return self._partitions.names()

    @property
    def is_reading(self) -> bool:
        """Whether streams may return records: not during a rebalance, and only while the session is surely alive."""
        return self._gate.is_open

    # ---- records

    def __aiter__(self) -> "ZooKeeperConsumer":
        return self

    async def __anext__(self) -> ConsumerRecord:
        """The next record of any stream; waits without a limit, and ends when the consumer is closed."""
        return await self._gate.next_of(self._records.take)

    # ---- offsets

    async def commit(self) -> None:
        """Commit all records that streams have returned, including records in hand.

        Raises ZooKeeperSessionError if the partitions may have other owners; the broker's error.
        """
        if self._closed:
            raise ClosedError("the consumer has been closed")
        try:
            await self._committer.commit(with_in_hand=True)
        except (SessionExpiredError, ConnectionLossError) as error:
            raise ZooKeeperSessionError(str(error)) from error

    async def _commit_before_release(self) -> None:
        if self._options.auto_commit_interval_s is not None:
            await self._committer.before_release()

    # ---- callbacks

    def _group_changed(self) -> None:
        self._rebalancer.request()

    def _brokers_known(self, view: GroupView) -> None:
        self._cluster.bootstrap_servers = [address for _, address in view.brokers]

    def _session_changed(self, state: ConnectionState) -> None:
        if state is ConnectionState.SUSPENDED:
            # A server also disconnects if the session was ended from elsewhere. If a server can be reached, the new
            # state is known in a moment; if not, the lease decides.
            self._gate.hold(_HOLD_S)
            return
        if state is ConnectionState.EXPIRED:
            self._lease.end()
            self._rebalancer.session_lost()
        self._gate.unhold()

    def _failed(self, error: BaseException) -> None:
        self._partitions.failed(error)

    async def _keep_lease(self) -> None:
        """Renew the lease as long as the servers answer."""
        retries = Retries(self._backoff)
        while True:
            with suppress(ConnectionLossError, SessionExpiredError):
                await self._renew_lease()
            pause_s = self._registry.session_timeout_ms / 1000 / RENEWALS_PER_TIMEOUT
            if self._lease.is_valid:
                retries.succeeded()
            else:
                pause_s = min(pause_s, retries.next_delay_s())
            await asyncio.sleep(pause_s)

    async def _renew_lease(self) -> None:
        sent_at_s = self._lease.now_s()
        if not await self._group.prove_alive():
            self._rebalancer.request()  # our node was deleted, but the session is alive
        was_valid = self._lease.is_valid
        self._lease.renew(sent_at_s, self._registry.session_timeout_ms / 1000)
        if not was_valid:
            self._gate.ring()


def _registry(options: ZooKeeperConsumerOptions) -> ZooKeeperRegistry:
    try:
        address = ZooKeeperAddress.parse(options.zookeeper_connect)
    except BadArgumentsError as error:
        raise refuse("zookeeper_connect", options.zookeeper_connect, str(error)) from None
    return ZooKeeperRegistry(
        address,
        options.zookeeper_session_timeout_ms,
        connection_timeout_ms=options.zookeeper_connection_timeout_ms,
        make_chroot=False,
        security=options.load_zookeeper_security(),
    )
