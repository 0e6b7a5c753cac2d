"""The options of `ZooKeeperConsumer`: its constructor makes one object of them.

The TypedDict beside the options class gives the constructor's keyword arguments their types. A test compares the two.
"""

import random as random_module
from dataclasses import dataclass
from typing import Final, Required

from client.consumer.options import ReaderOptions
from client.options import check_choice, check_range, refuse
from client.wire.network import Network
from client.wire.security_options import security_keywords
from client.zookeeper.offsets import KAFKA, STORAGES
from client.zookeeper.rebalance import ZooKeeperRebalanceListener
from client.zookeeper.security_options import ZooKeeperSecurityKeywords, ZooKeeperSecurityOptions
from client.zookeeper.topic_filter import TopicFilter
from registry.znodes.tree import LEGACY_07, TODAY

_RESETS: Final = {"smallest": "earliest", "largest": "latest", "earliest": "earliest", "latest": "latest"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperConsumerOptions(ZooKeeperSecurityOptions):
    """The options of `ZooKeeperConsumer`, which describes them.

    A field has the name of Kafka 0.8's setting with _ for dots: `fetch_wait_max_ms` is `fetch.wait.max.ms`. Fields in
    `_ms` are times in ms, fields in `_bytes` sizes in bytes. `layout`, `isolation_level`, `fetch_max_bytes`,
    `max_buffered_bytes`, `topic_filter` and `threads` are not settings of 0.8, nor are those of TLS and SASL.

    Raises InvalidOptionError for a value that breaks a rule.
    """

    group_id: str
    zookeeper_connect: str = "127.0.0.1:2181"
    layout: str = "today"
    topic_filter: TopicFilter | None = None
    threads: int = 1
    consumer_id: str | None = None
    client_id: str | None = None
    auto_commit_enable: bool = True
    auto_commit_interval_ms: int = 60_000
    auto_offset_reset: str = "largest"
    offsets_storage: str = "zookeeper"
    dual_commit_enabled: bool | None = None
    rebalance_max_retries: int = 4
    rebalance_backoff_ms: int = 2_000
    rebalance_listener: ZooKeeperRebalanceListener | None = None
    exclude_internal_topics: bool = True
    zookeeper_session_timeout_ms: int = 6_000
    zookeeper_connection_timeout_ms: int = 6_000
    isolation_level: str = "read_uncommitted"
    fetch_min_bytes: int = 1
    fetch_wait_max_ms: int = 100
    fetch_max_bytes: int = 50 * 1024 * 1024
    fetch_message_max_bytes: int = 1024 * 1024
    max_buffered_bytes: int = 2 * 1024 * 1024
    socket_timeout_ms: int = 30_000
    refresh_leader_backoff_ms: int = 200
    network: Network | None = None
    random: random_module.Random | None = None

    def __post_init__(self) -> None:
        ZooKeeperSecurityOptions.__post_init__(self)
        check_choice("layout", self.layout, (TODAY, LEGACY_07))
        check_choice("auto_offset_reset", self.auto_offset_reset, tuple(_RESETS))
        check_choice("offsets_storage", self.offsets_storage, STORAGES)
        if self.dual_commit_enabled and self.offsets_storage != KAFKA:
            raise refuse("dual_commit_enabled", self.dual_commit_enabled, 'needs offsets_storage="kafka"')
        check_range("auto_commit_interval_ms", self.auto_commit_interval_ms, 1)
        check_range("rebalance_max_retries", self.rebalance_max_retries, 0)
        check_range("rebalance_backoff_ms", self.rebalance_backoff_ms, 1)
        check_range("zookeeper_session_timeout_ms", self.zookeeper_session_timeout_ms, 1)
        check_range("zookeeper_connection_timeout_ms", self.zookeeper_connection_timeout_ms, 1)
        # ReaderOptions checks these, too, but under other names.
        check_range("socket_timeout_ms", self.socket_timeout_ms, 1)
        check_range("refresh_leader_backoff_ms", self.refresh_leader_backoff_ms, 0)
        check_range("fetch_wait_max_ms", self.fetch_wait_max_ms, 0, self.socket_timeout_ms - 1)
        check_range("fetch_message_max_bytes", self.fetch_message_max_bytes, 1)

    def for_reader(self, random: random_module.Random) -> ReaderOptions:
        """The options of the fetcher and of the cluster. Raises InvalidOptionError."""
        return ReaderOptions(
            client_id=self.client_id or self.group_id,
            auto_offset_reset=_RESETS[self.auto_offset_reset],
            isolation_level=self.isolation_level,
            fetch_min_bytes=self.fetch_min_bytes,
            fetch_max_wait_ms=self.fetch_wait_max_ms,
            fetch_max_bytes=self.fetch_max_bytes,
            max_partition_fetch_bytes=self.fetch_message_max_bytes,
            max_buffered_bytes=self.max_buffered_bytes,
            request_timeout_ms=self.socket_timeout_ms,
            retry_backoff_ms=self.refresh_leader_backoff_ms,
            network=self.network,
            random=random,
            **security_keywords(self),
        )

    @property
    def dual_commit(self) -> bool:
        """Whether offsets that are kept in Kafka are committed to ZooKeeper, too."""
        return self.offsets_storage == KAFKA if self.dual_commit_enabled is None else self.dual_commit_enabled

    @property
    def auto_commit_interval_s(self) -> float | None:
        """The time between automatic commits in seconds; None for none."""
        return self.auto_commit_interval_ms / 1000 if self.auto_commit_enable else None


class ZooKeeperConsumerKeywords(ZooKeeperSecurityKeywords, total=False):
    """The fields of `ZooKeeperConsumerOptions` as keyword arguments."""

    group_id: Required[str]
    zookeeper_connect: str
    layout: str
    topic_filter: TopicFilter | None
    threads: int
    consumer_id: str | None
    client_id: str | None
    auto_commit_enable: bool
    auto_commit_interval_ms: int
    auto_offset_reset: str
    offsets_storage: str
    dual_commit_enabled: bool | None
    rebalance_max_retries: int
    rebalance_backoff_ms: int
    rebalance_listener: ZooKeeperRebalanceListener | None
    exclude_internal_topics: bool
    zookeeper_session_timeout_ms: int
    zookeeper_connection_timeout_ms: int
    isolation_level: str
    fetch_min_bytes: int
    fetch_wait_max_ms: int
    fetch_max_bytes: int
    fetch_message_max_bytes: int
    max_buffered_bytes: int
    socket_timeout_ms: int
    refresh_leader_backoff_ms: int
    network: Network | None
    random: random_module.Random | None
