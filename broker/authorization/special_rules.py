"""The rules of APIs that no general rule fits: those of topics and clusters."""

from __future__ import annotations

import copy
from typing import Any

from broker.authorization.rule import ERRORS, Answer, Check, Each, Gate, Need, Rule, after, part_of
from broker.requests.context import RequestContext
from broker.requests.handler import AnyHandler
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from protocol.messages.fetch import FetchRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseTopic
from protocol.uuid import ZERO_UUID
from security.acls.binding import CLUSTER_NAME
from security.acls.types import Operation, ResourceType

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
NO_TOPIC = ERRORS[TOPIC]


class FetchRule(Rule):
    """Fetch: ClusterAction of followers. The handler asks for Read of consumers, because it knows their sessions."""

    __slots__ = ()
    follow = Need(CLUSTER, Operation.CLUSTER_ACTION)
    read = Need(TOPIC, Operation.READ)
    needs = (read, follow)

    def handle(self, handler: AnyHandler, request: FetchRequest, context: RequestContext, gate: Gate) -> Answer:
        """See `Rule`."""
        return handler.handle(request, context)


class MetadataRule(Rule):
    """Metadata: Describe on each topic, and Create on it or on the cluster where it would be created."""

    __slots__ = ()
    _describe = Need(TOPIC, Operation.DESCRIBE)
    _create = Need(TOPIC, Operation.CREATE)
    _create_any = Need(CLUSTER, Operation.CREATE)
    _describe_cluster = Need(CLUSTER, Operation.DESCRIBE)
    needs = (_describe, _create_any, _create, _describe_cluster)

    def handle(self, handler: AnyHandler, request: MetadataRequest, context: RequestContext, gate: Gate) -> Answer:
        """See `Rule`."""
        asked = request.topics
        wants_all = asked is None or (context.api_version == 0 and not asked)
        allowed: list[MetadataRequestTopic] = []
        refused: list[MetadataResponseTopic] = []
        for topic in () if asked is None else asked:
            answer = self._refusal(topic, request, context, gate)
            if answer is None:
                allowed.append(topic)
            else:
                refused.append(answer)
        nothing_left = not wants_all and not allowed
        by_id = {topic.topic_id for topic in allowed if topic.name is None}

        def finish(response: MetadataResponse) -> None:
            if wants_all:
                response.topics = [
                    topic for topic in response.topics if gate.sees(context, self._describe, topic.name or "")
                ]
            elif nothing_left:
                response.topics = []  # in version 0, an empty list asked for all
            elif by_id:
                # The handler may have waited, and may know topics that had no name when the request came.
                response.topics = [
                    self._described(topic, context, gate) if topic.topic_id in by_id else topic
                    for topic in response.topics
                ]
            self._tell_operations(response, request, context, gate)
            response.topics = [*response.topics, *refused]

        narrowed = part_of(request, "topics", allowed) if refused else request
        return after(handler.handle(narrowed, context), finish)

    def _refusal(
        self, topic: MetadataRequestTopic, request: MetadataRequest, context: RequestContext, gate: Gate
    ) -> MetadataResponseTopic | None:
        name = topic.name
        if name is None:
            name = gate.snapshot.topic_names.get(topic.topic_id)
            if name is None or gate.allows(context, self._describe, name):
                return None  # an id without a name: `handle` asks again when the answer is there
            return _refused_id(topic.topic_id)
        if gate.allows(context, self._describe, name) and self._may_create(name, request, context, gate):
            return None
        return MetadataResponseTopic(error_code=NO_TOPIC, name=name)

    def _described(self, topic: MetadataResponseTopic, context: RequestContext, gate: Gate) -> MetadataResponseTopic:
        """Return the answer for a topic, or its refusal if the client may not describe it."""
        if not topic.name or gate.allows(context, self._describe, topic.name):
            return topic
        return _refused_id(topic.topic_id)

    def _may_create(self, name: str, request: MetadataRequest, context: RequestContext, gate: Gate) -> bool:
        """Whether the topic exists, or is not created, or may be created."""
        creates = request.allow_auto_topic_creation or context.api_version < 4
        if name in gate.snapshot.topics or not (creates and gate.creates_topics):
            return True
        return gate.sees(context, self._create_any) or gate.allows(context, self._create, name)

    def _tell_operations(
        self, response: MetadataResponse, request: MetadataRequest, context: RequestContext, gate: Gate
    ) -> None:
        if request.include_topic_authorized_operations:
            for topic in response.topics:
                if topic.name:
                    topic.topic_authorized_operations = gate.access.operations(context, TOPIC, topic.name)
        if request.include_cluster_authorized_operations:
            response.cluster_authorized_operations = cluster_operations(context, gate)


def _refused_id(topic_id: bytes) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=NO_TOPIC, name=None, topic_id=topic_id)


def cluster_operations(context: RequestContext, gate: Gate) -> int:
    """Return what the client may do with the cluster; 0 if it may not describe it."""
    if not gate.sees(context, Need(CLUSTER, Operation.DESCRIBE)):
        return 0
    return gate.access.operations(context, CLUSTER, CLUSTER_NAME)


class DescribeClusterRule(Rule):
    """DescribeCluster: open to all; the operations on the cluster need Describe."""

    __slots__ = ()
    needs = ()

    def handle(self, handler: AnyHandler, request: Any, context: RequestContext, gate: Gate) -> Answer:
        """See `Rule`."""

        def tell(response: Any) -> None:
            if request.include_cluster_authorized_operations and not response.error_code:
                response.cluster_authorized_operations = cluster_operations(context, gate)

        return after(handler.handle(request, context), tell)


class CreateTopicsRule(Rule):
    """CreateTopics: Create on the cluster or on each topic; the configs in the answer need DescribeConfigs."""

    __slots__ = ()
    _create_any = Need(CLUSTER, Operation.CREATE)
    _create = Need(TOPIC, Operation.CREATE)
    _describe_configs = Need(TOPIC, Operation.DESCRIBE_CONFIGS)
    needs = (_create_any, _create, _describe_configs)

    def handle(self, handler: AnyHandler, request: CreateTopicsRequest, context: RequestContext, gate: Gate) -> Answer:
        """See `Rule`."""

        def judge(part: Any, request: Any, context: RequestContext, gate: Gate) -> ErrorCode | None:
            may = gate.sees(context, self._create_any) or gate.allows(context, self._create, part.name)
            return None if may else NO_TOPIC

        def hide(response: CreateTopicsResponse) -> None:
            for result in response.topics:
                if result.error_code in (ErrorCode.NONE, NO_TOPIC):
                    self._hide_configs(result, context, gate)

        return after(Each("topics", "topics", judge, ()).handle(handler, request, context, gate), hide)

    def _hide_configs(self, result: CreatableTopicResult, context: RequestContext, gate: Gate) -> None:
        if result.error_code:
            result.error_message = "Authorization failed."
        if not gate.sees(context, self._describe_configs, result.name):
            result.topic_config_error_code = NO_TOPIC
            result.num_partitions = result.replication_factor = -1
            result.configs = []


class DeleteTopicsRule(Rule):
    """DeleteTopics: Delete on each topic. By id, the name of a topic is told only to those who may describe it."""

    __slots__ = ()
    _delete = Need(TOPIC, Operation.DELETE)
    _describe = Need(TOPIC, Operation.DESCRIBE)
    needs = (_delete, _describe)

    def handle(self, handler: AnyHandler, request: DeleteTopicsRequest, context: RequestContext, gate: Gate) -> Answer:
        """See `Rule`. As in Kafka, a broker that is not the controller says so before it asks for permission."""
        if not gate.is_controller:
            return handler.failed(request, ErrorCode.NOT_CONTROLLER)
        allowed: list[DeleteTopicState] = []
        refused: list[DeletableTopicResult] = []
        topics = request.topics or [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names]
        for topic in topics:
            answer = self._refusal(topic, context, gate)
            if answer is None:
                allowed.append(topic)
            else:
                refused.append(answer)
        if not refused:
            return handler.handle(request, context)
        if not allowed:
            return DeleteTopicsResponse(responses=refused)

        def add(response: DeleteTopicsResponse) -> None:
            response.responses = [*response.responses, *refused]

        narrowed = copy.copy(request)
        narrowed.topics, narrowed.topic_names = allowed, []
        return after(handler.handle(narrowed, context), add)

    def _refusal(self, topic: DeleteTopicState, context: RequestContext, gate: Gate) -> DeletableTopicResult | None:
        if topic.name is not None:
            if gate.allows(context, self._delete, topic.name):
                return None
            return DeletableTopicResult(name=topic.name, topic_id=ZERO_UUID, error_code=NO_TOPIC)
        name = gate.snapshot.topic_names.get(topic.topic_id)
        if name is None:
            # Not left to the handler, which may find a topic of this id later, when nobody asks for permission.
            return DeletableTopicResult(name=None, topic_id=topic.topic_id, error_code=ErrorCode.UNKNOWN_TOPIC_ID)
        described = gate.sees(context, self._describe, name)
        if described and gate.allows(context, self._delete, name):
            return None
        shown = name if described else None
        return DeletableTopicResult(name=shown, topic_id=topic.topic_id, error_code=NO_TOPIC)


class ConfigsRule(Each):
    """The APIs of settings: an operation on the topic, or on the cluster for settings of brokers."""

    __slots__ = ()

    def __init__(self, answers: str, operation: Operation, *of_cluster: int) -> None:
        """of_cluster: the types of config resources that belong to the cluster. Others are left to the handler."""
        of_topic, of_broker = Need(TOPIC, operation), Need(CLUSTER, operation)

        def judge(part: Any, request: Any, context: RequestContext, gate: Gate) -> ErrorCode | None:
            if part.resource_type == TOPIC_CONFIG:
                return None if gate.allows(context, of_topic, part.resource_name) else ERRORS[TOPIC]
            if part.resource_type in of_cluster:
                return None if gate.allows(context, of_broker) else ERRORS[CLUSTER]
            return None

        super().__init__("resources", answers, judge, [of_topic, of_broker])


TOPIC_CONFIG, BROKER_CONFIG, BROKER_LOGGER_CONFIG, CLIENT_METRICS_CONFIG = 2, 4, 8, 16


class InitProducerIdRule(Rule):
    """InitProducerId: Write on the transactional id; without one, IdempotentWrite or Write on any topic."""

    __slots__ = ()
    _write = Need(ResourceType.TRANSACTIONAL_ID, Operation.WRITE)
    _idempotent = Need(CLUSTER, Operation.IDEMPOTENT_WRITE)
    needs = (_write, _idempotent, Need(TOPIC, Operation.WRITE))

    def handle(self, handler: AnyHandler, request: Any, context: RequestContext, gate: Gate) -> Answer:
        """See `Rule`."""
        code = None
        if request.transactional_id is not None:
            if not gate.allows(context, self._write, request.transactional_id):
                code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        elif not gate.sees(context, self._idempotent) and not gate.access.allows_any(
            context, gate.api, Operation.WRITE, TOPIC
        ):
            code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        return handler.handle(request, context) if code is None else handler.failed(request, code)


def cluster(*operations: Operation) -> Check:
    """Return the check of an operation, or one of several, on the cluster."""
    return Check(CLUSTER, *operations)
