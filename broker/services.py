"""The parts of one running broker, which its handlers share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from broker.authentication.scram_credentials import ScramCredentials
from broker.authentication.tokens import DelegationTokens
from broker.authorization.access import Access
from broker.cluster.certainty import LeadershipCertainty
from broker.cluster.metadata_cache import MetadataCache
from broker.cluster.peer_apis import PeerApis
from broker.cluster.registry_access import RegistryAccess
from broker.controller.controller import Controller
from broker.coordination import Coordination
from broker.errors import NotControllerError
from broker.fetch_sessions import FetchSessions
from broker.metrics import BrokerMetrics
from broker.producer_ids import ProducerIds
from broker.quotas.client_quotas import ClientQuotas
from broker.registry_offsets import RegistryOffsets
from broker.requests.context import RequestContext
from broker.settings.config import BrokerConfig
from broker.settings.store import ConfigStore
from broker.topics import Topics
from protocol.sentinels import NO_EPOCH
from replication.errors import StaleBrokerEpochError
from replication.replica_manager import ReplicaManager
from storage.compaction.log_cleaner import LogCleaner
from storage.log_manager import LogManager


class ProduceWatcher(Protocol):
    """Observes Produce requests, while the console traces a record."""

    def produce_received(self, context: RequestContext) -> None:
        """A request is about to be handled."""


@dataclass(slots=True)
class Services:
    """The parts of one broker that its handlers use."""

    config: BrokerConfig
    broker_id: int
    cluster_id: str
    metadata: MetadataCache
    peers: PeerApis
    replicas: ReplicaManager
    logs: LogManager
    topics: Topics
    configs: ConfigStore
    producer_ids: ProducerIds
    coordination: Coordination
    registry_access: RegistryAccess
    certainty: LeadershipCertainty
    scram_credentials: ScramCredentials
    tokens: DelegationTokens
    registry_offsets: RegistryOffsets
    fetch_sessions: FetchSessions
    metrics: BrokerMetrics
    quotas: ClientQuotas
    now_ms: Callable[[], int]
    cleaner: LogCleaner
    controller: Controller
    """This broker's controller, which may be inactive; see `acting_controller`."""
    is_controller: Callable[[], bool]
    served_apis: Sequence[tuple[int, int, int]]
    """(API key, lowest, highest version), for ApiVersions."""
    access: Access | None = None
    """Decides what clients may do; None if there is no authorizer."""
    broker_epoch: int = -1
    """The czxid of this broker's registration; a request with an older one is for an earlier registration."""
    produce_watchers: set[ProduceWatcher] = field(default_factory=set)
    """Usually empty."""

    def acting_controller(self) -> Controller:
        """Return the controller if it is active on this broker. Raises NotControllerError."""
        if not self.controller.is_active:
            raise NotControllerError("This is not the correct controller for this cluster.")
        return self.controller

    def check_broker_epoch(self, broker_epoch: int) -> None:
        """Raise StaleBrokerEpochError if a request is for an earlier registration of this broker (KIP-380).

        A newer epoch is accepted: the controller may learn of a registration before this broker does.
        """
        if broker_epoch != NO_EPOCH and broker_epoch < self.broker_epoch:
            raise StaleBrokerEpochError(f"broker epoch {broker_epoch} is older than {self.broker_epoch}")
