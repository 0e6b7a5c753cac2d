"""Elections on request: ElectLeaders, `/admin/preferred_replica_election`, and the automatic rebalance."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from enum import IntEnum

from broker.controller.context import ControllerContext, TopicPartition
from broker.controller.leader_election import elect_preferred
from broker.controller.partitions import PartitionLeaders
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode
from protocol.sentinels import NO_LEADER
from registry.errors import NoNodeError, ZnodeFormatError
from registry.interface import Delete, Registry
from registry.znodes.admin import PreferredReplicaElectionZnode

logger = logging.getLogger(__name__)


class ElectionType(IntEnum):
    """Kafka's types of elections on request."""

    PREFERRED = 0
    UNCLEAN = 1


Outcome = tuple[ErrorCode, str | None]

_DONE: Outcome = (ErrorCode.NONE, None)


class Elections:
    """Holds elections on request."""

    def __init__(
        self, registry: Registry, context: ControllerContext, config: BrokerConfig, leaders: PartitionLeaders
    ) -> None:
        self._registry = registry
        self._context = context
        self._config = config
        self._leaders = leaders

    async def elect(self, keys: Iterable[TopicPartition] | None, kind: ElectionType) -> dict[TopicPartition, Outcome]:
        """Elect leaders for these partitions; None: for all. Return the outcome of each."""
        context = self._context
        wanted = list(context.all_partitions()) if keys is None else list(dict.fromkeys(keys))
        outcomes: dict[TopicPartition, Outcome] = {}
        electable = []
        for key in wanted:
            if not context.partition_exists(key) or key not in context.leaderships:
                outcomes[key] = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
            elif key[0] in context.deleting:
                outcomes[key] = (ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is being deleted")
            elif not self._is_needed(key, kind):
                outcomes[key] = (ErrorCode.ELECTION_NOT_NEEDED, None)
            else:
                electable.append(key)
        elected = await self._elect(electable, kind)
        for key in electable:
            outcomes[key] = _DONE if key in elected else _impossible(key, kind)
        return outcomes

    async def _elect(self, keys: Collection[TopicPartition], kind: ElectionType) -> set[TopicPartition]:
        if kind is ElectionType.PREFERRED:
            return await self._leaders.elect_preferred(keys)
        return await self._leaders.elect_unclean(keys)

    def _is_needed(self, key: TopicPartition, kind: ElectionType) -> bool:
        leader = self._context.leaderships[key].state.leader
        if kind is ElectionType.PREFERRED:
            return leader != self._context.replicas(key)[0]
        return leader == NO_LEADER or leader not in self._context.brokers

    async def read_requested(self) -> None:
        """Hold the elections that a tool has requested in /admin/preferred_replica_election, and remove the znode."""
        path = PreferredReplicaElectionZnode.path()
        try:
            data, _ = await self._registry.get(path)
            keys = PreferredReplicaElectionZnode.decode(data, path).partitions
        except NoNodeError:
            return
        except ZnodeFormatError as error:
            logger.error("a request for elections is ignored: %s", error)
            return
        for key, (code, _) in (await self.elect(keys, ElectionType.PREFERRED)).items():
            if code not in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
                logger.warning("%s: %s-%d: %s", path, *key, code.name)
        await self._registry.multi([self._context.epoch_check(), Delete(path)])

    async def rebalance(self) -> None:
        """Elect preferred leaders where too many of a broker's partitions are led by others."""
        preferred: dict[int, list[TopicPartition]] = {}
        for key in self._context.leaderships:
            if key[0] not in self._context.deleting and key not in self._context.unreadable:
                preferred.setdefault(self._context.replicas(key)[0], []).append(key)
        allowed = self._config.leader_imbalance_per_broker_percentage
        for broker_id, keys in sorted(preferred.items()):
            not_preferred = [key for key in keys if self._context.leaderships[key].state.leader != broker_id]
            if len(not_preferred) * 100 > allowed * len(keys):
                electable = [key for key in not_preferred if self._can_lead(key)]
                if electable:
                    logger.info("broker %d becomes the leader of %d partitions again", broker_id, len(electable))
                await self._leaders.elect_preferred(electable)

    def _can_lead(self, key: TopicPartition) -> bool:
        context = self._context
        isr = context.leaderships[key].state.isr
        return elect_preferred(context.replicas(key), isr, context.eligible_replicas(key)) is not None


def _impossible(key: TopicPartition, kind: ElectionType) -> Outcome:
    if kind is ElectionType.PREFERRED:
        code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    else:
        code = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
    return code, f"Failed to elect leader for partition {key[0]}-{key[1]} under {kind.name.lower()} election"
