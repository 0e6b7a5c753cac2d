"""Connect the replica manager to the rest of the broker: addresses of other brokers, settings, and ISR changes."""

from __future__ import annotations

import random
from collections.abc import Callable

from broker.cluster.isr_writer import IsrWriter
from broker.cluster.metadata_cache import MetadataCache
from broker.settings.config import BrokerConfig
from client.wire.backoff import Backoff
from client.wire.connection_security import ConnectionSecurity
from client.wire.network import Network
from client.wire.node_connection import ConnectionOptions, NodeConnection
from client.wire.setup_timeouts import SetupTimeouts
from registry.interface import Registry
from replication.alter_partition import AlterPartition
from replication.alter_partition_requests import AlterPartitionRequests
from replication.fetch_answers import FetchAnswers
from replication.fetch_state import FIRST_RETRY_MS
from replication.fetcher import Fetcher
from replication.fetcher_manager import FetcherManager
from replication.in_sync_replicas import LagRules
from replication.inter_broker_protocol import InterBrokerProtocol
from replication.isr_changes import RETRY_BACKOFF_MS, IsrChanges
from replication.leader_endpoint import LeaderEndpoint
from replication.log_dir_moves import LogDirMoves
from replication.replica_manager import ReplicaManager
from replication.replication_quota import ALL_REPLICAS, ReplicationQuota
from storage.log.config import LogConfig
from storage.log_manager import LogManager


class ReplicaParts:
    """Creates the replica manager of one broker."""

    def __init__(
        self,
        broker_id: int,
        config: BrokerConfig,
        *,
        metadata: MetadataCache,
        network: Network,
        security: ConnectionSecurity,
        setup: SetupTimeouts,
        registry: Registry,
        broker_epoch: Callable[[], int],
        now_s: Callable[[], float],
        rng: random.Random,
    ) -> None:
        """security, setup: of connections to other brokers. now_s: a monotonic clock, in seconds."""
        self._broker_id = broker_id
        self._config = config
        self._metadata = metadata
        self._network = network
        self._security = security
        self._setup = setup
        self._registry = registry
        self._broker_epoch = broker_epoch
        self._now_s = now_s
        self._fetch_backoff = Backoff(FIRST_RETRY_MS, config.replica_fetch_backoff_ms, rng)
        # Always the same delay, as in Kafka: a pending change delays commits.
        self._isr_backoff = Backoff(RETRY_BACKOFF_MS, RETRY_BACKOFF_MS, rng)
        self._versions = InterBrokerProtocol(config.inter_broker_protocol_version)

    def manager(self, logs: LogManager, topic_config: Callable[[str], LogConfig]) -> ReplicaManager:
        """Create the replica manager; the caller must run it."""
        config, metadata = self._config, self._metadata
        rules = LagRules(
            now_ms=lambda: int(self._now_s() * 1000),
            max_lag_ms=config.replica_lag_time_max_ms,
            max_lag_messages=config.replica_lag_max_messages,
            is_alive=lambda broker_id: broker_id in metadata.snapshot.brokers,
        )
        replicas = ReplicaManager(
            self._broker_id,
            logs,
            topic_config,
            exists=lambda topic, partition: metadata.snapshot.partition(topic, partition) is not None,
            rules=rules,
        )
        replicas.isr_changes = IsrChanges(
            self._broker_id, rules, self._alter_partition(), self._broker_epoch, self._isr_backoff
        )
        replicas.leader_quota = self._quota(
            lambda: config.dynamic_quota("leader.replication.throttled.rate"),
            lambda topic: topic.leader_replication_throttled_replicas,
        )
        follower_quota = self._quota(
            lambda: config.dynamic_quota("follower.replication.throttled.rate"),
            lambda topic: topic.follower_replication_throttled_replicas,
        )
        answers = FetchAnswers(logs, follower_quota, replicas.check)

        def new_fetcher(leader_id: int, number: int) -> Fetcher:
            return Fetcher(
                leader_id,
                self._leader(leader_id, f"fetcher-{number}", keeps_session=True),
                self._leader(leader_id, f"fetcher-{number}-introduction", keeps_session=False),
                answers,
                settings=config,
                quota=follower_quota,
                truncates_on_fetch=self._versions.truncates_on_fetch,
                now_s=self._now_s,
                on_failed=fetchers.failed.add,
                backoff=self._fetch_backoff,
            )

        fetchers = replicas.fetchers = FetcherManager(new_fetcher, config)
        replicas.moves = self._moves(replicas)
        return replicas

    def _moves(self, replicas: ReplicaManager) -> LogDirMoves:
        config = self._config

        def rate() -> float:
            return config.dynamic_quota("replica.alter.log.dirs.io.max.bytes.per.second")

        quota = ReplicationQuota(
            rate,
            lambda topic: ALL_REPLICAS,
            self._broker_id,
            now_s=self._now_s,
            samples=config.alter_log_dirs_replication_quota_window_num,
            sample_s=config.alter_log_dirs_replication_quota_window_size_seconds,
        )
        return LogDirMoves(replicas, config, quota, rate, self._now_s, self._fetch_backoff)

    def _quota(self, rate: Callable[[], float], replicas: Callable[[LogConfig], tuple[str, ...]]) -> ReplicationQuota:
        return ReplicationQuota(
            rate,
            replicas,
            self._broker_id,
            now_s=self._now_s,
            samples=self._config.replication_quota_window_num,
            sample_s=self._config.replication_quota_window_size_seconds,
        )

    def _alter_partition(self) -> AlterPartition:
        if not self._versions.alters_isr_by_request:
            return IsrWriter(self._registry, now_s=self._now_s)
        controller = self._connection(
            "the controller", lambda: self._metadata.snapshot.controller_id, "alter-partition", True
        )
        return AlterPartitionRequests(self._broker_id, controller, self._broker_epoch, self._isr_backoff)

    def _leader(self, leader_id: int, purpose: str, *, keeps_session: bool) -> LeaderEndpoint:
        return LeaderEndpoint(
            self._broker_id,
            self._connection(f"broker {leader_id}", lambda: leader_id, purpose, False),
            self._versions,
            self._config,
            self._broker_epoch,
            keeps_session=keeps_session,
        )

    def _connection(self, name: str, broker_id: Callable[[], int], purpose: str, negotiates: bool) -> NodeConnection:
        options = ConnectionOptions(
            self._network,
            client_id=f"broker-{self._broker_id}-{purpose}",
            request_timeout_s=self._config.replica_socket_timeout_ms / 1000,
            negotiates=negotiates,
            security=self._security,
            setup=self._setup,
        )
        listener_name = self._config.inter_broker_listener_name
        return NodeConnection(name, lambda: self._metadata.snapshot.address(broker_id(), listener_name), options.open)
