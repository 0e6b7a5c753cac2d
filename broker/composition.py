"""The composition root: makes the parts of a broker and connects them. None of them does anything yet."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter

from broker.authentication.scram_credentials import ScramCredentials
from broker.authentication.tokens import DelegationTokens
from broker.authorization.access import Access
from broker.cluster.certainty import LeadershipCertainty
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.peer_apis import PeerApis
from broker.cluster.registry_access import RegistryAccess
from broker.controller import topic_deletion
from broker.controller.channel import ControllerChannel
from broker.controller.controller import Controller
from broker.coordination import Coordination
from broker.fetch_sessions import FetchSessions
from broker.metrics import BrokerMetrics
from broker.network.listener import PLAINTEXT
from broker.producer_ids import ProducerIds
from broker.quotas.client_quotas import ClientQuotas
from broker.quotas.rates import Window
from broker.registry_offsets import RegistryOffsets
from broker.replicas import ReplicaParts
from broker.requests.api_table import Api
from broker.services import Services
from broker.settings.config import BrokerConfig
from broker.settings.store import ConfigStore
from broker.topics import Topics
from client.wire.backoff import Backoff
from client.wire.connection_security import UNSECURED, ConnectionSecurity
from client.wire.network import Network
from client.wire.node_connection import ConnectionOptions
from client.wire.setup_timeouts import SetupTimeouts
from registry.interface import Registry
from storage.compaction.compactor import Compactor
from storage.compaction.log_cleaner import LogCleaner
from storage.file_system import FileSystem
from storage.log.config import LogConfig
from storage.log_manager import LogManager


class Composition:
    """Makes the parts of one broker."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        metadata: MetadataCache,
        metrics: BrokerMetrics,
        network: Network,
        fs: FileSystem,
        now_ms: Callable[[], int],
        rng: random.Random,
        backoff: Backoff,
        apis: Sequence[Api],
    ) -> None:
        """Raises ConfigError if connections to other brokers cannot be secured as the settings say."""
        self._config = config
        self._metadata = metadata
        self._metrics = metrics
        self._network = network
        self._fs = fs
        self._now_ms = now_ms
        self._rng = rng
        self._backoff = backoff
        self._apis = apis
        self.between_brokers = self._security_of(config.inter_broker_listener_name)
        """TLS and the login of connections to other brokers."""
        self._from_controller = self._security_of(config.controller_listener_name)
        self._setup = SetupTimeouts(
            config.socket_connection_setup_timeout_ms, config.socket_connection_setup_timeout_max_ms, rng
        )

    def _security_of(self, listener: str) -> ConnectionSecurity:
        """Return TLS and the login of connections to other brokers, on this listener. Raises ConfigError."""
        config = self._config
        if config.listener_security_protocol_map[listener] == PLAINTEXT:
            return UNSECURED
        from broker.cluster.inter_broker import inter_broker_security  # only brokers with TLS or SASL need it

        return inter_broker_security(config, listener, self._rng)

    def logs(
        self, topic_config: Callable[[str], LogConfig], new_compactor: Callable[[], Compactor]
    ) -> tuple[LogManager, LogCleaner]:
        """Make the logs, which are not loaded yet, and what compacts them."""
        logs = LogManager(
            self._config.log_dirs,
            topic_config,
            fs=self._fs,
            now_ms=self._now_ms,
            rng=self._rng,
            recovery_threads=self._config.num_recovery_threads_per_data_dir,
            full_validation=self._config.ottla_produce_validation == "full",
            flush_scheduler_interval_ms=self._config.log_flush_scheduler_interval_ms,
            flush_offset_checkpoint_interval_ms=self._config.log_flush_offset_checkpoint_interval_ms,
            flush_start_offset_checkpoint_interval_ms=self._config.log_flush_start_offset_checkpoint_interval_ms,
            high_watermark_checkpoint_interval_ms=self._config.replica_high_watermark_checkpoint_interval_ms,
            retention_check_interval_ms=self._config.log_retention_check_interval_ms,
            producer_id_expiration_ms=self._config.producer_id_expiration_ms,
            initial_task_delay_ms=self._config.log_initial_task_delay_ms,
            producer_id_expiration_check_interval_ms=self._config.producer_id_expiration_check_interval_ms,
        )
        logs.cleaner = cleaner = LogCleaner(
            logs.logs, logs.dirs, self._config, fs=self._fs, now_ms=self._now_ms, new_compactor=new_compactor
        )
        return logs, cleaner

    def services(
        self,
        broker_id: int,
        cluster_id: str,
        logs: LogManager,
        cleaner: LogCleaner,
        configs: ConfigStore,
        registry_access: RegistryAccess,
        access: Access | None,
    ) -> Services:
        """Make the parts that handlers share."""
        config, registry = self._config, registry_access.registry
        controller = self._candidate(broker_id, configs, registry)
        replicas = ReplicaParts(
            broker_id,
            config,
            metadata=self._metadata,
            network=self._network,
            security=self.between_brokers,
            setup=self._setup,
            registry=registry,
            broker_epoch=lambda: services.broker_epoch,
            now_s=asyncio.get_running_loop().time,
            rng=self._rng,
        ).manager(logs, configs.topic_config)
        topics = Topics(config, registry, self._metadata, configs, self._rng)
        producer_ids = ProducerIds(broker_id, registry)
        peers = self._peers(broker_id, registry)
        services = Services(
            config=config,
            broker_id=broker_id,
            cluster_id=cluster_id,
            metadata=self._metadata,
            peers=peers,
            replicas=replicas,
            logs=logs,
            topics=topics,
            configs=configs,
            producer_ids=producer_ids,
            coordination=Coordination(
                config,
                network=self._network,
                security=self.between_brokers,
                setup=self._setup,
                replicas=replicas,
                metadata=self._metadata,
                peers=peers,
                topics=topics,
                producer_ids=producer_ids,
                now_ms=self._now_ms,
                rng=self._rng,
            ),
            registry_access=registry_access,
            certainty=LeadershipCertainty(registry, lambda: services.broker_epoch),
            scram_credentials=ScramCredentials(configs.entities),
            tokens=DelegationTokens(
                config, registry, self._now_ms, self._backoff, is_controller=lambda: controller.is_active
            ),
            registry_offsets=RegistryOffsets(registry),
            fetch_sessions=FetchSessions(
                config.max_incremental_fetch_session_cache_slots, self._now_ms, self._rng, replicas.idle
            ),
            metrics=self._metrics,
            quotas=ClientQuotas(
                Window(config.quota_window_num, config.quota_window_size_seconds),
                Window(config.controller_quota_window_num, config.controller_quota_window_size_seconds),
                perf_counter,  # requests are timed with it: one reading of the clock for both
            ),
            now_ms=self._now_ms,
            cleaner=cleaner,
            controller=controller,
            is_controller=lambda: controller.is_active,
            access=access,
            served_apis=[api.announced for api in self._apis],
        )
        return services

    def _candidate(self, broker_id: int, configs: ConfigStore, registry: Registry) -> Controller:
        return Controller(
            broker_id,
            registry=registry,
            new_channel=partial(
                ControllerChannel,
                options=self.controller_connection(f"controller-{broker_id}")._replace(security=self._from_controller),
                backoff=self._backoff,
            ),
            config=self._config,
            topic_overrides=configs.read_topic,
            now_ms=self._now_ms,
            backoff=self._backoff,
            deletion_backoff=Backoff(topic_deletion.RETRY_BACKOFF_MS, topic_deletion.RETRY_BACKOFF_MAX_MS, self._rng),
        )

    def _peers(self, broker_id: int, registry: Registry) -> PeerApis:
        timeout_s = self._config.request_timeout_ms / 1000
        options = ConnectionOptions(
            self._network, f"broker-{broker_id}-apis", timeout_s, True, self.between_brokers, self._setup
        )
        return PeerApis(broker_id, registry, self._config.inter_broker_listener_name, options, self._backoff)

    def controller_connection(self, client_id: str) -> ConnectionOptions:
        """For connections from and to the controller."""
        timeout_s = self._config.controller_socket_timeout_ms / 1000
        return ConnectionOptions(self._network, client_id, timeout_s, security=self.between_brokers, setup=self._setup)
