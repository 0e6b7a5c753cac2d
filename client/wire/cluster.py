"""A client's view of a cluster: one connection to each broker, and metadata that follows leader changes.

Producer, reader, consumer and admin share `Cluster`. It knows the bootstrap servers, opens a connection to a broker
when one is first needed, negotiates versions on it, and keeps the newest `Metadata`, which it refreshes when it is old.
Concurrent requests for a refresh are coalesced into one; a failed refresh is retried with backoff and jitter.
"""

import asyncio
import random as random_module
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from typing import TypeVar

from client.background import Background
from client.errors import (
    AuthenticationError,
    BrokerUnknownError,
    ClosedError,
    ConnectionLostError,
    KafkaError,
    NoBrokersAvailableError,
    error_for,
)
from client.options import parse_bootstrap_servers
from client.topic_partition import TopicPartition
from client.wire.backoff import Backoff, Retries
from client.wire.client_security import connection_security
from client.wire.cluster_options import ClusterOptions
from client.wire.connection import Connection
from client.wire.metadata import Metadata, TopicMetadata
from client.wire.network import AsyncioNetwork
from client.wire.node_connection import ConnectionOptions, NodeConnection
from client.wire.setup_timeouts import SetupTimeouts
from protocol.error_codes import ErrorCode
from protocol.host_port import HostPort
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

T = TypeVar("T")

BOOTSTRAP_ROUNDS = 3
NAME_RULE = "a name has 1 to 249 letters, digits, '.', '_' and '-' (ASCII), and is not '.' or '..'"
_UNKNOWN_TOPIC = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
_NOT_CONTROLLER = ErrorCode.NOT_CONTROLLER


class Cluster:
    """Connections and metadata of one client. Use all methods in one event loop.

    `on_error` is called with errors of background tasks that no caller awaits (a bug, not a lost connection).
    """

    def __init__(self, options: ClusterOptions, *, on_error: Callable[[BaseException], None] | None = None) -> None:
        self.bootstrap_servers = parse_bootstrap_servers(options.bootstrap_servers)
        self.random = options.random if options.random is not None else random_module.Random()
        self.backoff = Backoff(options.retry_backoff_ms, options.retry_backoff_max_ms, self.random)
        self.metadata = Metadata()
        # Called after every new snapshot.
        self.metadata_listeners: list[Callable[[], None]] = []
        self.background = Background(on_error if on_error is not None else _ignore)
        self._metadata_max_age_s = options.metadata_max_age_ms / 1000
        self._max_idle_s = options.connections_max_idle_ms / 1000
        self._idle_timer: asyncio.TimerHandle | None = None
        self._options = options
        self._connection_options = ConnectionOptions(
            options.network if options.network is not None else AsyncioNetwork(),
            options.client_id,
            request_timeout_s=options.request_timeout_s,
            negotiates=True,
            security=options.connection_security or connection_security(options, self.random),
            setup=SetupTimeouts(
                options.socket_connection_setup_timeout_ms, options.socket_connection_setup_timeout_max_ms, self.random
            ),
        )
        # Connections by node id. The bootstrap connection gets its node id when metadata names the broker.
        self._nodes: dict[int, NodeConnection] = {}
        self._bootstrap: Connection | None = None
        self._opening_bootstrap = asyncio.Lock()
        # Every connection that may be open, also those of `open_own`: `close` ends whatever their users left open.
        self._opened: list[Connection] = []
        self._topics: set[str] = set()
        # Refresh all topics of the cluster, not only `_topics`.
        self.tracks_all = False
        # Ends when the newest snapshot is too old.
        self._timer: asyncio.TimerHandle | None = None
        self._refresh_wanted = False
        self._refreshing = False
        self._closed = False

    # ---- connections

    async def start(self) -> None:
        """Connect to a broker and read the cluster's brokers. Raises NoBrokersAvailableError."""
        await self.refresh([])

    async def close(self) -> None:
        """Close every connection and end the background tasks."""
        self._closed = True
        for timer in (self._timer, self._idle_timer):
            if timer is not None:
                timer.cancel()
        await self.background.close()
        for connection in self._opened:
            await connection.close()
        self._nodes.clear()
        self._bootstrap = None

    def open_connection(self, node_id: int) -> Connection | None:
        """The connection to a broker if it is open now."""
        node = self._nodes.get(node_id)
        return None if node is None else node.current

    def has_lost(self, node_id: int) -> bool:
        """Whether a connection to a broker has ended since the last metadata."""
        node = self._nodes.get(node_id)
        return node is not None and node.is_lost

    async def connection(self, node_id: int) -> Connection:
        """The connection to a broker, opened if necessary. Raises ConnectionLostError, UnsupportedApiError."""
        return await self._node(node_id).open()

    async def open_own(self, node_id: int) -> Connection:
        """Open a separate connection to a broker: no other request delays the caller's, and the caller closes it.

        Raises ConnectionLostError, UnsupportedApiError.
        """
        broker = self.metadata.brokers.get(node_id)
        if broker is None:
            raise BrokerUnknownError(f"broker {node_id}")
        return await self._open(broker.address)

    def _node(self, node_id: int) -> NodeConnection:
        def address() -> HostPort | None:
            broker = self.metadata.brokers.get(node_id)
            return None if broker is None else broker.address

        known = self._nodes.get(node_id)
        if known is None:
            known = self._nodes[node_id] = NodeConnection(f"broker {node_id}", address, self._open)
        return known

    async def any_connection(self) -> Connection:
        """A connection to any broker that answers: an open one, a known one, a bootstrap server.

        Of the open ones it is that with the fewest requests in flight, so that no second request waits for a broker
        that does not answer the first one; those where somebody has given up come last. Raises
        NoBrokersAvailableError, and AuthenticationError of the first broker where TLS or the login fails.
        """
        best = min(self._open_connections(), key=lambda one: (one.is_given_up, one.in_flight), default=None)
        if best is not None:
            return best
        async with self._opening_bootstrap:
            if self._bootstrap is not None and not self._bootstrap.is_closed:
                return self._bootstrap
            addresses = [broker.address for broker in self.metadata.brokers.values()]
            self.random.shuffle(addresses)
            bootstrap = [server for server in self.bootstrap_servers if server not in addresses]
            self.random.shuffle(bootstrap)
            reasons = []
            for address in (*addresses, *bootstrap):
                try:
                    self._bootstrap = await self._open(address)
                except AuthenticationError:
                    raise
                except KafkaError as error:
                    reason = error.reason if isinstance(error, ConnectionLostError) else str(error)
                    reasons.append(f"{address} ({reason})")
                else:
                    return self._bootstrap
        raise NoBrokersAvailableError("no broker answers at " + ", ".join(reasons))

    async def controller(self) -> Connection:
        """A connection to the controller. Raises KafkaError if there is none."""
        if self.metadata.controller_id not in self.metadata.brokers:
            await self.refresh([])
        if self.metadata.controller_id not in self.metadata.brokers:
            raise error_for(_NOT_CONTROLLER, "the cluster has no controller now")
        return await self.connection(self.metadata.controller_id)

    async def _open(self, address: HostPort) -> Connection:
        self._check_open()
        connection = await self._connection_options.open(address)
        try:
            self._check_open()
        except ClosedError:
            connection.abort()
            raise
        self._opened = [one for one in self._opened if not one.is_closed] + [connection]
        if self._idle_timer is None:
            self._idle_timer = asyncio.get_running_loop().call_later(self._max_idle_s, self._close_idle)
        return connection

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError("this client has been closed")

    def _open_connections(self) -> Iterator[Connection]:
        for connection in (*(node.current for node in self._nodes.values()), self._bootstrap):
            if connection is not None and not connection.is_closed:
                yield connection

    def _close_idle(self) -> None:
        """Close connections without a request for `connections_max_idle_ms`, and schedule the next check."""
        self._idle_timer = None
        loop = asyncio.get_running_loop()
        next_at = float("inf")
        for connection in self._open_connections():
            idle_at = (loop.time() if connection.in_flight else connection.used_at) + self._max_idle_s
            if idle_at <= loop.time():
                connection.abort("closed by this side: idle")
            else:
                next_at = min(next_at, idle_at)
        if next_at != float("inf"):
            self._idle_timer = loop.call_at(next_at, self._close_idle)

    # ---- metadata

    async def refresh(self, topics: Iterable[str] | None, *, allow_auto_create: bool | None = None) -> MetadataResponse:
        """Request metadata of these topics (None: all), make a new snapshot, and return the answer unchanged.

        The answer contains the errors of single topics. Raises NoBrokersAvailableError after a few attempts.
        """
        wanted = None if topics is None else [MetadataRequestTopic(name=topic) for topic in sorted(set(topics))]
        auto_create = self._options.allow_auto_create_topics if allow_auto_create is None else allow_auto_create
        retries = self.retries()
        while True:
            try:
                connection = await self.any_connection()
                response = await connection.call(
                    MetadataRequest(topics=wanted, allow_auto_topic_creation=auto_create), MetadataResponse
                )
                break
            except ConnectionLostError:
                if retries.failures + 1 >= BOOTSTRAP_ROUNDS:
                    raise
                await retries.wait()
        self._take(response, is_everything=wanted is None)
        return response

    def _take(self, response: MetadataResponse, *, is_everything: bool) -> None:
        before = self.metadata.brokers
        self.metadata = metadata = self.metadata.updated(response, is_everything=is_everything)
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._metadata_max_age_s, self.request_refresh)
        for node_id, node in list(self._nodes.items()):
            node.forget_lost()
            broker = metadata.brokers.get(node_id)
            if broker is None or (node_id in before and before[node_id].address != broker.address):
                # Requests in flight would wait for a timeout.
                node.close("the broker has another address now")
            if broker is None:
                del self._nodes[node_id]
        bootstrap = self._bootstrap
        if bootstrap is not None:
            for broker in metadata.brokers.values():
                if broker.address == (bootstrap.host, bootstrap.port):
                    node = self._node(broker.node_id)
                    if node.current is None:
                        node.adopt(bootstrap)
                        self._bootstrap = None
                    break
        for listener in self.metadata_listeners:
            listener()

    def learn_leader(self, partition: TopicPartition, topic_id: bytes, leader: int, leader_epoch: int) -> None:
        """Adopt a leader that another answer than Metadata names, if it is newer than the known one.

        The broker that answers the next Metadata request may not know of it yet.
        """
        metadata = self.metadata.with_leader(partition, topic_id, leader, leader_epoch)
        if metadata is not self.metadata:
            self.metadata = metadata
            for listener in self.metadata_listeners:
                listener()

    def track(self, topics: Iterable[str]) -> None:
        """Include these topics in every refresh from now on."""
        self._topics.update(topics)

    def untrack(self, topics: Iterable[str]) -> None:
        """Stop refreshing these topics."""
        self._topics.difference_update(topics)

    def request_refresh(self) -> None:
        """Refresh the tracked topics soon, in the background; calls in the meantime are coalesced."""
        self._refresh_wanted = True
        if not self._refreshing and not self._closed:
            self._refreshing = True
            self.background.spawn(self._refresh_in_background(), "metadata refresh")

    async def _refresh_in_background(self) -> None:
        retries = self.retries()
        try:
            while self._refresh_wanted:
                self._refresh_wanted = False
                try:
                    await self.refresh(None if self.tracks_all else self._topics)
                except KafkaError:
                    self._refresh_wanted = True
                # Also after a success: a leader change takes a moment to reach every broker, and while answers
                # still name the old leader, refreshes must not follow each other without a pause.
                await retries.wait()
        finally:
            self._refreshing = False

    async def topic(
        self, name: str, *, timeout_s: float, tolerate_unknown_s: float | None = None, partition: int | None = None
    ) -> TopicMetadata:
        """A topic's metadata, requested if it is not known yet, or if it does not have this partition.

        The request is repeated for `tolerate_unknown_s` (None: `timeout_s`) while the broker does not know the
        topic or the partition, as they may be under creation. Raises UnknownTopicOrPartitionError and other errors of
        the broker.
        """
        self.track([name])
        loop = asyncio.get_running_loop()
        start = loop.time()
        retries = self.retries()
        while True:
            known = self.metadata.topics.get(name)
            if known is not None and known.partitions and (partition is None or partition in known.partitions):
                return known
            response = await self.refresh([name])
            error = self._topic_error(name, partition, response, timeout_s)
            if error is not None:
                patience = (
                    timeout_s if tolerate_unknown_s is None or error.code != _UNKNOWN_TOPIC else tolerate_unknown_s
                )
                if not error.retriable or loop.time() - start >= patience:
                    if name not in self.metadata.topics:
                        self.untrack([name])
                    raise error
                await retries.wait()

    def _topic_error(
        self, name: str, partition: int | None, response: MetadataResponse, timeout_s: float
    ) -> KafkaError | None:
        """Return why an answer does not have a topic or its partition; None if it does."""
        code = next((topic.error_code for topic in response.topics if topic.name == name), _UNKNOWN_TOPIC)
        if code:
            rule = NAME_RULE if code == ErrorCode.INVALID_TOPIC_EXCEPTION else None
            return error_for(code, rule, context=f"topic {name}")
        known = self.metadata.topics.get(name)
        if partition is not None and (known is None or partition not in known.partitions):
            return error_for(
                _UNKNOWN_TOPIC, f"no partition {partition} within {timeout_s:g} s", context=f"topic {name}"
            )
        return None

    # ---- requests

    def retries(self) -> Retries:
        """Return a counter of failures with this client's back-off."""
        return Retries(self.backoff)

    async def retry(
        self,
        action: Callable[[], Awaitable[T]],
        *,
        timeout_s: float,
        tolerate_unknown_s: float = 0,
        also_retriable: Collection[ErrorCode] = (),
    ) -> T:
        """Run `action` until it does not fail with a retriable error; after `timeout_s`, raise its last error.

        An unknown topic is retriable for `tolerate_unknown_s` only: right after a creation not every broker knows the
        topic, but a request for a topic that does not exist should fail soon.
        """
        loop = asyncio.get_running_loop()
        start = loop.time()
        retries = self.retries()
        while True:
            try:
                return await action()
            except KafkaError as error:
                delay_s = retries.next_delay_s()
                patience_s = tolerate_unknown_s if error.code == _UNKNOWN_TOPIC else timeout_s
                unreachable = isinstance(error, NoBrokersAvailableError)
                retriable = error.retriable or error.code in also_retriable
                if not retriable or unreachable or loop.time() + delay_s > start + patience_s:
                    raise
                await asyncio.sleep(delay_s)
                if error.code is None or error.code.invalid_metadata or error.code == _NOT_CONTROLLER:
                    await self.refresh(self._topics)


def _ignore(_: BaseException) -> None:
    pass
