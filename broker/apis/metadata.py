"""Metadata: brokers, topics, partitions and leaders; creates topics on first use if that is enabled.

A null topic list means all topics, an empty list none (in v0, which has no null, an empty list means all).
A topic that is being created is answered with LEADER_NOT_AVAILABLE, and clients retry.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any

from broker.cluster.metadata_cache import Snapshot, TopicMetadata
from broker.errors import code_of
from broker.quotas.mutations import NEVER_STRICT, MutationQuota
from broker.requests.authorized_operations import NOT_ASKED, operations_on
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from broker.topic_names import INTERNAL_TOPICS, topic_name_problem
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.messages.update_metadata import UpdateMetadataPartitionState
from protocol.uuid import ZERO_UUID
from security.acls.types import ResourceType

FIRST_VERSION_WITH_NULL_TOPICS = 1
FIRST_VERSION_WITH_CREATION_FLAG = 4
FIRST_VERSION_WITH_IDS = 12
LAST_VERSION_WITHOUT_LISTENER_ERROR = 5

LEADER_WAIT_S = 0.25
BROKERS_WAIT_S = 10.0


class MetadataHandler(Handler[MetadataRequest, MetadataResponse]):
    """Answers from the metadata cache."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: MetadataRequest, context: RequestContext
    ) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
        """See the module docstring."""
        snapshot = self._services.metadata.snapshot
        if not snapshot.brokers:
            return self._when_brokers_are_known(request, context)
        asked = request.topics
        if asked is None or (context.api_version < FIRST_VERSION_WITH_NULL_TOPICS and not asked):
            topics = [self._topic(topic, snapshot, context, request) for topic in snapshot.topics.values()]
            return self._response(topics, request, context)
        if context.api_version < FIRST_VERSION_WITH_IDS and any(
            topic.name is None or topic.topic_id != ZERO_UUID for topic in asked
        ):
            return self.failed(request, ErrorCode.INVALID_REQUEST)
        may_create = (
            request.allow_auto_topic_creation or context.api_version < FIRST_VERSION_WITH_CREATION_FLAG
        ) and self._services.config.auto_create_topics_enable
        missing = [topic.name for topic in asked if topic.name is not None and topic.name not in snapshot.topics]
        if may_create and any(topic_name_problem(name) is None for name in missing):
            return self._create_and_answer(missing, request, context)
        return self._response(self._asked_topics(asked, request, context, {}), request, context)

    async def _when_brokers_are_known(self, request: MetadataRequest, context: RequestContext) -> MetadataResponse:
        """Answer when the controller's first metadata has arrived, which a broker lacks just after its start.

        An empty answer would be correct, but some clients do not retry for minutes after it.
        """
        if not await self._services.metadata.wait_until(lambda now: bool(now.brokers), BROKERS_WAIT_S):
            return self._response([], request, context)
        answer = self.handle(request, context)
        return answer if isinstance(answer, MetadataResponse) else await answer

    async def _create_and_answer(
        self, missing: Iterable[str], request: MetadataRequest, context: RequestContext
    ) -> MetadataResponse:
        errors: dict[str, ErrorCode] = {}
        quota = MutationQuota.of(self._services.quotas, context, strict_from=NEVER_STRICT)
        for name in dict.fromkeys(missing):
            if topic_name_problem(name) is not None:
                errors[name] = ErrorCode.INVALID_TOPIC_EXCEPTION
                continue
            errors[name] = await self._create(name, quota)
        # A new topic usually has a leader after a few milliseconds: this wait saves the client a retry.
        created = {name for name, code in errors.items() if code is ErrorCode.LEADER_NOT_AVAILABLE}
        await self._services.metadata.wait_until(lambda now: created <= now.topics.keys(), LEADER_WAIT_S)
        assert request.topics is not None
        return self._response(self._asked_topics(request.topics, request, context, errors), request, context)

    async def _create(self, name: str, quota: MutationQuota) -> ErrorCode:
        """Create a topic with the defaults, and return the error code for the client.

        As in Kafka, its partitions count for the quota of the client, but the request is not throttled for them.
        """
        try:
            await self._services.topics.create_default(name, take=quota.take)
        except Exception as error:
            code = code_of(error)
            if code is ErrorCode.TOPIC_ALREADY_EXISTS:
                return ErrorCode.LEADER_NOT_AVAILABLE
            return code
        return ErrorCode.LEADER_NOT_AVAILABLE

    def _asked_topics(
        self,
        asked: Iterable[MetadataRequestTopic],
        request: MetadataRequest,
        context: RequestContext,
        creation_errors: dict[str, ErrorCode],
    ) -> list[MetadataResponseTopic]:
        snapshot = self._services.metadata.snapshot
        answers: list[MetadataResponseTopic] = []
        seen: set[tuple[str | None, bytes]] = set()
        for topic in asked:
            name = topic.name
            if (name, topic.topic_id) in seen:
                continue
            seen.add((name, topic.topic_id))
            if name is None:
                name = snapshot.topic_names.get(topic.topic_id)
                if name is None:
                    code = ErrorCode.UNKNOWN_TOPIC_ID if topic.topic_id != ZERO_UUID else ErrorCode.INVALID_REQUEST
                    answers.append(
                        MetadataResponseTopic(error_code=code, topic_id=topic.topic_id, name=_no_name(context))
                    )
                    continue
            known = snapshot.topics.get(name)
            if known is not None:
                answers.append(self._topic(known, snapshot, context, request))
                continue
            if topic_name_problem(name) is not None:
                code = ErrorCode.INVALID_TOPIC_EXCEPTION
            else:
                code = creation_errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            answers.append(
                MetadataResponseTopic(
                    error_code=code,
                    name=name,
                    is_internal=name in INTERNAL_TOPICS,
                    topic_authorized_operations=_topic_operations(request),
                )
            )
        return answers

    def _topic(
        self, topic: TopicMetadata, snapshot: Snapshot, context: RequestContext, request: MetadataRequest
    ) -> MetadataResponseTopic:
        listener = context.listener_name
        reachable = {broker_id for broker_id in snapshot.brokers if snapshot.node(broker_id, listener)}
        return MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.name in INTERNAL_TOPICS,
            partitions=[
                _partition(state, snapshot, reachable, context.api_version) for state in topic.partitions.values()
            ],
            topic_authorized_operations=_topic_operations(request),
        )

    def _response(
        self, topics: list[MetadataResponseTopic], request: MetadataRequest, context: RequestContext
    ) -> MetadataResponse:
        snapshot = self._services.metadata.snapshot
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
                for node in snapshot.nodes(context.listener_name)
            ],
            cluster_id=self._services.cluster_id,
            controller_id=snapshot.controller_id,
            topics=topics,
            cluster_authorized_operations=(
                operations_on(ResourceType.CLUSTER) if request.include_cluster_authorized_operations else NOT_ASKED
            ),
        )

    def failed(self, request: MetadataRequest, code: ErrorCode) -> MetadataResponse:
        """Return the answer with the error for every topic, and nothing of the cluster."""
        topics = request.topics or []
        return MetadataResponse(
            topics=[MetadataResponseTopic(error_code=code, name=topic.name or "") for topic in topics],
        )


def _topic_operations(request: MetadataRequest) -> int:
    return operations_on(ResourceType.TOPIC) if request.include_topic_authorized_operations else NOT_ASKED


def _no_name(context: RequestContext) -> str | None:
    return None if context.api_version >= FIRST_VERSION_WITH_IDS else ""


def _partition(
    state: UpdateMetadataPartitionState, snapshot: Snapshot, reachable: set[int], version: int
) -> MetadataResponsePartition:
    if version == 0:
        # v0 has no offline replicas: clients recognize dead brokers by their absence.
        replicas = [replica for replica in state.replicas if replica in reachable]
        isr = [replica for replica in state.isr if replica in reachable]
        complete = len(replicas) == len(state.replicas) and len(isr) == len(state.isr)
        code = ErrorCode.NONE if complete else ErrorCode.REPLICA_NOT_AVAILABLE
    else:
        replicas, isr, code = state.replicas, state.isr, ErrorCode.NONE
    leader = state.leader
    if leader not in reachable:
        alive = leader in snapshot.brokers
        code = (
            ErrorCode.LISTENER_NOT_FOUND
            if alive and version > LAST_VERSION_WITHOUT_LISTENER_ERROR
            else ErrorCode.LEADER_NOT_AVAILABLE
        )
        leader = -1
    return MetadataResponsePartition(
        error_code=code,
        partition_index=state.partition_index,
        leader_id=leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=state.offline_replicas
        or [replica for replica in state.replicas if replica not in snapshot.brokers],
    )
