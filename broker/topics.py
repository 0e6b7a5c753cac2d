"""Create, extend and delete topics: check the request and write to the registry. The controller does the rest.

Errors are RequestError with Kafka's code and a message for the client.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from broker.cluster.metadata_cache import MetadataCache
from broker.controller.assignment import assign_replicas
from broker.errors import RequestError
from broker.quotas.mutations import TakePartitions, take_freely
from broker.settings.config import BrokerConfig
from broker.settings.store import ConfigStore
from broker.topic_names import colliding_topic, topic_name_problem
from protocol.error_codes import ErrorCode
from protocol.uuid import ZERO_UUID, random_uuid
from registry.errors import BadVersionError, NodeExistsError, NoNodeError
from registry.interface import Registry
from registry.repeated_writes import RepeatedWrites
from registry.znodes.admin import DeleteTopicZnode
from registry.znodes.topics import TopicsZnode, TopicZnode
from replication.inter_broker_protocol import InterBrokerProtocol
from storage.setting import ConfigError

DEFAULT = -1
"""As the number of partitions or the replication factor: the broker's default."""
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"
"""KRaft's topic: Kafka refuses to create a topic of this name."""

MAX_PARTITIONS_PER_REQUEST = 10_000
"""KRaft's limit: without a limit, a bad request with one large number could use all memory."""

FREE_NAME_S: Final = 5.0
"""How long the answer to a deletion waits until the name of the topic is free."""

Assignment = Mapping[int, list[int]]


class CreatedTopic(NamedTuple):
    """A topic that was created, or only validated."""

    name: str
    topic_id: bytes
    partitions: int
    replication_factor: int


class Topics:
    """Changes the topics of the cluster."""

    def __init__(
        self,
        config: BrokerConfig,
        registry: Registry,
        metadata: MetadataCache,
        configs: ConfigStore,
        rng: random.Random,
    ) -> None:
        self._config = config
        self._registry = registry
        self._writes = RepeatedWrites(registry)
        self._metadata = metadata
        self._configs = configs
        self._random = rng

    async def create(
        self,
        name: str,
        *,
        partitions: int = DEFAULT,
        replication_factor: int = DEFAULT,
        assignment: Assignment | None = None,
        overrides: Mapping[str, str | None] | None = None,
        validate_only: bool = False,
        take: TakePartitions = take_freely,
    ) -> CreatedTopic:
        """Create a topic; the controller elects its leaders later. Raises RequestError.

        take: called with the number of partitions right before the change, for the quota of the client.
        """
        if name == CLUSTER_METADATA_TOPIC:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        await self._check_new_name(name)
        settings = self._checked_settings(name, overrides or {})
        if assignment:
            if partitions != DEFAULT or replication_factor != DEFAULT:
                raise RequestError(
                    ErrorCode.INVALID_REQUEST,
                    "Both numPartitions or replicationFactor and replicasAssignments were set. "
                    "Both cannot be used at the same time.",
                )
            chosen = self._checked_assignment(assignment, first_partition=0)
        else:
            chosen = self._assign(partitions, replication_factor)
        has_id = InterBrokerProtocol(self._config.inter_broker_protocol_version).has_topic_ids
        topic_id = random_uuid(self._random) if has_id else None
        created = CreatedTopic(name, topic_id or ZERO_UUID, len(chosen), len(chosen[0]))
        if validate_only:
            return created
        take(len(chosen))
        await self._configs.create_topic(name, settings)
        znode = TopicZnode(partitions=chosen, topic_id=topic_id)
        try:
            await self._writes.create(TopicZnode.path(name), znode.encode())
        except NodeExistsError:
            raise _exists(name) from None
        return created

    async def create_default(self, name: str, *, take: TakePartitions = take_freely) -> None:
        """Create a topic with default settings, for automatic creation. Raises RequestError. take: see `create`."""
        config = self._config
        if name == OFFSETS_TOPIC:
            await self.create(
                name,
                partitions=config.offsets_topic_num_partitions,
                replication_factor=config.offsets_topic_replication_factor,
                overrides={
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(config.offsets_topic_segment_bytes),
                },
                take=take,
            )
        elif name == TRANSACTIONS_TOPIC:
            await self.create(
                name,
                partitions=config.transaction_state_log_num_partitions,
                replication_factor=config.transaction_state_log_replication_factor,
                overrides={
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "min.insync.replicas": str(config.transaction_state_log_min_isr),
                    "segment.bytes": str(config.transaction_state_log_segment_bytes),
                    "unclean.leader.election.enable": "false",
                },
                take=take,
            )
        else:
            await self.create(name, take=take)

    async def add_partitions(
        self,
        name: str,
        count: int,
        *,
        assignment: Sequence[list[int]] | None = None,
        validate_only: bool = False,
        take: TakePartitions = take_freely,
    ) -> None:
        """Increase the number of partitions of a topic to `count`. Raises RequestError. take: see `create`."""
        path = TopicZnode.path(name)
        if topic_name_problem(name) is not None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        if await self._registry.exists(DeleteTopicZnode.path(name)) is not None:
            raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
        try:
            data, stat = await self._registry.get(path)
        except NoNodeError:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.") from None
        znode = TopicZnode.decode(data, path)
        if znode.adding_replicas or znode.removing_replicas:
            raise RequestError(
                ErrorCode.REASSIGNMENT_IN_PROGRESS,
                f"A partition reassignment is in progress for the topic '{name}'.",
            )
        current = len(znode.partitions)
        if count < current:
            raise RequestError(
                ErrorCode.INVALID_PARTITIONS,
                f"Topic currently has {current} partitions, which is higher than the requested {count}.",
            )
        if count == current:
            raise RequestError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {current} partitions.")
        added = self._added_assignment(znode, count, None if assignment is None else list(assignment))
        if validate_only:
            return
        take(count - current)
        grown = znode.replace(partitions={**znode.partitions, **added})
        try:
            await self._writes.set(path, grown.encode(), stat.version)
        except (BadVersionError, NoNodeError):  # the znode was changed meanwhile: retry
            await self.add_partitions(name, count, assignment=assignment)

    async def delete(self, name: str, *, take: TakePartitions = take_freely) -> None:
        """Ask the controller to delete a topic. Raises RequestError. take: see `create`."""
        if topic_name_problem(name) is not None or await self._registry.exists(TopicZnode.path(name)) is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        topic = self._metadata.snapshot.topics.get(name)
        take(0 if topic is None else len(topic.partitions))
        with suppress(NodeExistsError):  # its deletion is already requested
            await self._writes.create(DeleteTopicZnode.path(name))

    async def count_partitions(self, name: str) -> int:
        """Return a topic's number of partitions in the registry, 0 for an unknown topic. Raises RegistryError."""
        path = TopicZnode.path(name)
        try:
            data, _ = await self._registry.get(path)
        except NoNodeError:
            return 0
        return len(TopicZnode.decode(data, path).partitions)

    # -- waiting for the controller --------------------------------------------------------------------------------

    async def wait_until_led(self, name: str, partitions: int, timeout_s: float) -> bool:
        """Wait until this broker's metadata has a leader of every partition. False if the timeout expired first."""

        def led(snapshot: object) -> bool:
            topic = self._metadata.snapshot.topics.get(name)
            if topic is None or len(topic.partitions) < partitions:
                return False
            return all(state.leader >= 0 for state in topic.partitions.values())

        return await self._metadata.wait_until(led, timeout_s)

    async def wait_until_deleted(self, name: str, timeout_s: float) -> bool:
        """Wait until this broker's metadata hides a topic that is being deleted. False if the timeout expired first.

        While all brokers with replicas are alive, wait some more until its name is free, so that the client can create
        the topic again at once. Kafka does not wait for that.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        holders = await self._holders(name)
        if not await self._metadata.wait_until(lambda snapshot: name not in snapshot.topics, timeout_s):
            return False
        left_s = min(deadline_s - loop.time(), FREE_NAME_S)
        waits = [
            asyncio.create_task(self._until_name_is_free(name)),
            asyncio.create_task(self._metadata.wait_until(lambda now: not holders <= now.brokers.keys(), left_s)),
        ]
        try:
            await asyncio.wait(waits, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        return True

    async def _holders(self, name: str) -> set[int]:
        """Return the brokers with replicas of a topic; none if it does not exist."""
        path = TopicZnode.path(name)
        try:
            data, _ = await self._registry.get(path)
        except NoNodeError:
            return set()
        return {broker for replicas in TopicZnode.decode(data, path).partitions.values() for broker in replicas}

    async def _until_name_is_free(self, name: str) -> None:
        path = TopicZnode.path(name)
        changed = asyncio.Event()
        watch = self._registry.watch_data(path, changed.set)
        try:
            while await self._registry.exists(path) is not None:
                await changed.wait()
                changed.clear()
        finally:
            watch.cancel()

    # -- checks ----------------------------------------------------------------------------------------------------

    async def _check_new_name(self, name: str) -> None:
        problem = topic_name_problem(name)
        if problem is not None:
            raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")
        if await self._registry.exists(TopicZnode.path(name)) is not None:
            raise _exists(name)
        if "." in name or "_" in name:
            collision = colliding_topic(name, await self._registry.children(TopicsZnode.TEMPLATE))
            if collision is not None:
                raise RequestError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"Topic '{name}' collides with existing topic: {collision}",
                )

    def _checked_settings(self, name: str, overrides: Mapping[str, str | None]) -> dict[str, str]:
        missing = [setting for setting, value in overrides.items() if value is None]
        if missing:
            raise RequestError(
                ErrorCode.INVALID_CONFIG, f"Null value not supported for topic configs: {', '.join(missing)}"
            )
        settings = {setting: value for setting, value in overrides.items() if value is not None}
        try:
            self._config.log_config(settings)
        except ConfigError as error:
            raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from None
        return settings

    def _assign(self, partitions: int, replication_factor: int) -> dict[int, list[int]]:
        if partitions == DEFAULT:
            partitions = self._config.num_partitions
        if replication_factor == DEFAULT:
            replication_factor = self._config.default_replication_factor
        brokers = self._racks()
        _check_count(partitions)
        if partitions <= 0:
            raise RequestError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
        if replication_factor <= 0:
            raise RequestError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
        if replication_factor > len(brokers):
            raise RequestError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Replication factor: {replication_factor} larger than available brokers: {len(brokers)}.",
            )
        return assign_replicas(brokers, partitions, replication_factor, rng=self._random)

    def _racks(self) -> dict[int, str | None]:
        """Return the live brokers and their racks."""
        return {broker_id: broker.rack for broker_id, broker in self._metadata.snapshot.brokers.items()}

    def _checked_assignment(
        self, assignment: Assignment, *, first_partition: int, replication_factor: int | None = None
    ) -> dict[int, list[int]]:
        partitions = sorted(assignment)
        if partitions != list(range(first_partition, first_partition + len(partitions))):
            raise RequestError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"partitions should be a consecutive {first_partition}-based integer sequence",
            )
        factor = replication_factor or len(assignment[first_partition])
        brokers = self._metadata.snapshot.brokers
        for partition, replicas in assignment.items():
            if not replicas or len(replicas) != factor:
                rule = f"must have {factor} replicas" if factor else "must not be empty"
            elif len(set(replicas)) != len(replicas):
                rule = "must not name a broker twice"
            elif unknown := [replica for replica in replicas if replica not in brokers]:
                rule = f"names brokers that are not available: {unknown}"
            else:
                continue
            raise RequestError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The replica assignment {replicas} of partition {partition} {rule}.",
            )
        return {partition: list(assignment[partition]) for partition in partitions}

    def _added_assignment(
        self, znode: TopicZnode, count: int, assignment: list[list[int]] | None
    ) -> dict[int, list[int]]:
        current = len(znode.partitions)
        _check_count(count - current)
        first_replicas = znode.partitions[0]
        if assignment is not None:
            if len(assignment) != count - current:
                raise RequestError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Increasing the number of partitions by {count - current} "
                    f"but {len(assignment)} assignments provided.",
                )
            return self._checked_assignment(
                dict(enumerate(assignment, current)),
                first_partition=current,
                replication_factor=len(first_replicas),
            )
        brokers = self._racks()
        if len(first_replicas) > len(brokers):
            raise RequestError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Replication factor: {len(first_replicas)} larger than available brokers: {len(brokers)}.",
            )
        start = next((at for at, broker in enumerate(sorted(brokers)) if broker >= first_replicas[0]), 0)
        return assign_replicas(
            brokers,
            count - current,
            len(first_replicas),
            rng=self._random,
            first_partition=current,
            start=start,
        )


def _check_count(added: int) -> None:
    if added > MAX_PARTITIONS_PER_REQUEST:
        raise RequestError(
            ErrorCode.POLICY_VIOLATION,
            f"{added} partitions are too many: one request can create at most {MAX_PARTITIONS_PER_REQUEST}.",
        )


def _exists(name: str) -> RequestError:
    return RequestError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
