"""The coordinators of one broker, their logs, and their connections to other brokers."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from functools import partial

from broker.cluster.connections import BrokerConnections
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.peer_apis import PeerApis
from broker.coordinator.coordinator_log import CoordinatorLog
from broker.coordinator.group_coordinator import GroupCoordinator
from broker.coordinator.transactions.coordinator import TransactionCoordinator
from broker.coordinator.transactions.verifier import TransactionVerifier
from broker.producer_ids import ProducerIds
from broker.settings.config import BrokerConfig
from broker.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topics
from client.wire.connection_security import ConnectionSecurity
from client.wire.network import Network
from client.wire.node_connection import ConnectionOptions
from client.wire.setup_timeouts import SetupTimeouts
from replication.replica_manager import ReplicaManager


class Coordination:
    """The group coordinator and the transaction coordinator. `run` must be running."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        network: Network,
        security: ConnectionSecurity,
        setup: SetupTimeouts,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        peers: PeerApis,
        topics: Topics,
        producer_ids: ProducerIds,
        now_ms: Callable[[], int],
        rng: random.Random,
    ) -> None:
        new_log = partial(CoordinatorLog, replicas=replicas, metadata=metadata, topics=topics, rng=rng)
        self.group_log = new_log(
            OFFSETS_TOPIC,
            default_partitions=config.offsets_topic_num_partitions,
            load_buffer_bytes=config.offsets_load_buffer_size,
        )
        self.transaction_log = new_log(
            TRANSACTIONS_TOPIC,
            default_partitions=config.transaction_state_log_num_partitions,
            load_buffer_bytes=config.transaction_state_log_load_buffer_size,
        )

        def connections(client_id: str) -> BrokerConnections:
            timeout_s = config.request_timeout_ms / 1000
            options = ConnectionOptions(network, client_id, timeout_s, security=security, setup=setup)
            return BrokerConnections(metadata, config.inter_broker_listener_name, options)

        self._marker_connections = connections("transaction-markers")
        self._verifying_connections = connections("transaction-verification")
        self.transactions = TransactionCoordinator(
            self.transaction_log,
            brokers=self._marker_connections,
            metadata=metadata,
            topics=topics,
            producer_ids=producer_ids,
            config=config,
            now_ms=now_ms,
            rng=rng,
        )
        self.verifier = TransactionVerifier(
            self.transaction_log,
            self._verifying_connections,
            config.inter_broker_listener_name,
            lambda: config.transaction_partition_verification_enable,
        )
        self.groups = GroupCoordinator(
            self.group_log,
            config=config,
            metadata=metadata,
            brokers_without=peers.brokers_without,
            now_ms=now_ms,
            rng=rng,
        )

    def complete_group_transaction(self, producer_id: int, markers: Mapping[int, int], committed: bool) -> None:
        """Complete a transaction. markers: by partition of `__consumer_offsets`, the offset of its committed marker."""
        self.groups.offsets.end_transaction(producer_id, markers, committed=committed)

    async def run(self) -> None:
        """Run both coordinators until cancelled."""
        try:
            await self.group_log.learn_partitions()
            await self.transaction_log.learn_partitions()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self.groups.run())
                tasks.create_task(self.transactions.run())
        finally:
            self._marker_connections.close()
            self._verifying_connections.close()
