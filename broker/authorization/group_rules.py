"""The rules of APIs of groups, transactions and tokens that no general rule fits."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, TypeVar

from broker.authorization.rule import ERRORS, Answer, Each, Gate, Need, Rule, after, named
from broker.requests.context import RequestContext
from broker.requests.handler import AnyHandler
from protocol.error_codes import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from security.acls.binding import CLUSTER_NAME
from security.acls.types import Operation, ResourceType
from security.principal import Principal

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
TRANSACTIONAL_ID = ResourceType.TRANSACTIONAL_ID
DESCRIBE_TOPIC = Need(TOPIC, Operation.DESCRIBE)
DESCRIBE_GROUP = Need(GROUP, Operation.DESCRIBE)
T = TypeVar("T", OffsetFetchRequestTopic, OffsetFetchRequestTopics)


class OffsetFetchRule(Rule):
    """OffsetFetch: Describe on each group and each topic. If all topics are asked for, the others are left out."""

    __slots__ = ()
    needs = (DESCRIBE_GROUP, DESCRIBE_TOPIC)

    def handle(self, handler: AnyHandler, request: OffsetFetchRequest, context: RequestContext, gate: Gate) -> Answer:
        """See `Rule`."""
        if context.api_version >= 8:
            return self._groups(handler, request, context, gate)
        if not gate.allows(context, DESCRIBE_GROUP, request.group_id):
            if context.api_version == 0:
                return handler.failed(request, ERRORS[GROUP])
            return OffsetFetchResponse(error_code=ERRORS[GROUP] if context.api_version >= 2 else ErrorCode.NONE)
        if request.topics is None:
            return after(handler.handle(request, context), lambda response: _hide(response, context, gate))
        narrowed = copy.copy(request)
        narrowed.topics, denied = _split(request.topics, context, gate)
        answers = [_old_refusal(topic.name, topic.partition_indexes) for topic in denied]
        if denied and not narrowed.topics:
            return OffsetFetchResponse(topics=answers)

        def add(response: OffsetFetchResponse) -> None:
            if not response.error_code:
                response.topics = [*response.topics, *answers]

        return after(handler.handle(narrowed, context), add)

    def _groups(self, handler: AnyHandler, request: OffsetFetchRequest, context: RequestContext, gate: Gate) -> Answer:
        refused: list[OffsetFetchResponseGroup] = []
        allowed: list[OffsetFetchRequestGroup] = []
        denied: list[list[OffsetFetchResponseTopics]] = []
        for group in request.groups:
            if not gate.allows(context, DESCRIBE_GROUP, group.group_id):
                refused.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=ERRORS[GROUP]))
                continue
            narrowed, answers = group, []
            if group.topics is not None:
                narrowed = copy.copy(group)
                narrowed.topics, hidden = _split(group.topics, context, gate)
                answers = [_refusal(topic.name, topic.partition_indexes) for topic in hidden]
            allowed.append(narrowed)
            denied.append(answers)
        if not allowed:
            return OffsetFetchResponse(groups=refused)

        def finish(response: OffsetFetchResponse) -> None:
            for asked, found, answers in zip(allowed, response.groups, denied, strict=True):
                if asked.topics is None:
                    _hide(found, context, gate)
                elif not found.error_code:
                    found.topics = [*found.topics, *answers]
            response.groups = [*response.groups, *refused]

        narrowed_request = copy.copy(request)
        narrowed_request.groups = allowed
        return after(handler.handle(narrowed_request, context), finish)


def _split(topics: Iterable[T], context: RequestContext, gate: Gate) -> tuple[list[T], list[T]]:
    """Return the topics that the client may describe, and the others."""
    allowed: list[T] = []
    denied: list[T] = []
    for topic in topics:
        (allowed if gate.allows(context, DESCRIBE_TOPIC, topic.name) else denied).append(topic)
    return allowed, denied


def _hide(response: Any, context: RequestContext, gate: Gate) -> None:
    """Leave out the topics that the client may not describe."""
    response.topics = [topic for topic in response.topics if gate.sees(context, DESCRIBE_TOPIC, topic.name)]


def _refusal(name: str, partitions: list[int]) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=name,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, metadata="", error_code=ERRORS[TOPIC]
            )
            for index in partitions
        ],
    )


def _old_refusal(name: str, partitions: list[int]) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=index, committed_offset=-1, metadata="", error_code=ERRORS[TOPIC]
            )
            for index in partitions
        ],
    )


class FindCoordinatorRule(Rule):
    """FindCoordinator: Describe on the group or transactional id; ClusterAction for share groups."""

    __slots__ = ()
    _by_type = (DESCRIBE_GROUP, Need(TRANSACTIONAL_ID, Operation.DESCRIBE), Need(CLUSTER, Operation.CLUSTER_ACTION))
    needs = _by_type

    def handle(
        self, handler: AnyHandler, request: FindCoordinatorRequest, context: RequestContext, gate: Gate
    ) -> Answer:
        """See `Rule`. A type that does not exist is left to the handler."""
        if not 0 <= request.key_type < len(self._by_type):
            return handler.handle(request, context)
        need = self._by_type[request.key_type]

        def judge(key: str, request: Any, context: RequestContext, gate: Gate) -> ErrorCode | None:
            name = CLUSTER_NAME if need.resource is CLUSTER else key
            return None if gate.allows(context, need, name) else ERRORS[need.resource]

        if context.api_version >= 4:
            return Each("coordinator_keys", "coordinators", judge, ()).handle(handler, request, context, gate)
        code = judge(request.key, request, context, gate)
        return handler.handle(request, context) if code is None else handler.failed(request, code)


class ListGroupsRule(Rule):
    """ListGroups: all groups with Describe on the cluster, else the groups that the client may describe."""

    __slots__ = ()
    _describe_cluster = Need(CLUSTER, Operation.DESCRIBE)
    needs = (_describe_cluster, DESCRIBE_GROUP)

    def handle(self, handler: AnyHandler, request: Any, context: RequestContext, gate: Gate) -> Answer:
        """See `Rule`."""

        def hide(response: Any) -> None:
            if not gate.sees(context, self._describe_cluster):
                response.groups = [one for one in response.groups if gate.sees(context, DESCRIBE_GROUP, one.group_id)]

        return after(handler.handle(request, context), hide)


class DescribeGroupsRule(Rule):
    """DescribeGroups and ConsumerGroupDescribe: Describe on each group, with the operations on it."""

    __slots__ = ("_each",)
    needs: tuple[Need, ...] = (DESCRIBE_GROUP,)

    def __init__(self, parts: str) -> None:
        """parts: the attribute of the request with the group ids."""
        self._each = Each(parts, "groups", named(*DESCRIBE_GROUP, None), ())

    def handle(self, handler: AnyHandler, request: Any, context: RequestContext, gate: Gate) -> Answer:
        """See `Rule`."""

        def tell(response: Any) -> None:
            for group in response.groups:
                if not group.error_code:
                    self._finish(group, request, context, gate)

        return after(self._each.handle(handler, request, context, gate), tell)

    def _finish(self, group: Any, request: Any, context: RequestContext, gate: Gate) -> None:
        if request.include_authorized_operations:
            group.authorized_operations = gate.access.operations(context, GROUP, group.group_id)


class ConsumerGroupDescribeRule(DescribeGroupsRule):
    """As DescribeGroups. A group with a topic that the client may not describe is refused, as in Kafka 4.0."""

    __slots__ = ()
    needs = (DESCRIBE_GROUP, DESCRIBE_TOPIC)
    _message = "The group has described topic(s) that the client is not authorized to describe."

    def _finish(self, group: Any, request: Any, context: RequestContext, gate: Gate) -> None:
        names = {name for member in group.members for name in member.subscribed_topic_names}
        for member in group.members:
            for assignment in (member.assignment, member.target_assignment):
                names.update(topic.topic_name for topic in assignment.topic_partitions)
        if all(gate.sees(context, DESCRIBE_TOPIC, name) for name in names):
            super()._finish(group, request, context, gate)
            return
        group.error_code, group.error_message = ERRORS[TOPIC], self._message
        group.members = []


class ConsumerGroupHeartbeatRule(Rule):
    """ConsumerGroupHeartbeat: Read on the group, and Describe on the topics that it subscribes to by name."""

    __slots__ = ()
    _read = Need(GROUP, Operation.READ)
    needs = (_read, DESCRIBE_TOPIC)

    def handle(self, handler: AnyHandler, request: Any, context: RequestContext, gate: Gate) -> Answer:
        """See `Rule`."""
        code = None
        if not gate.allows(context, self._read, request.group_id):
            code = ERRORS[GROUP]
        elif not all(gate.allows(context, DESCRIBE_TOPIC, name) for name in request.subscribed_topic_names or ()):
            code = ERRORS[TOPIC]
        return handler.handle(request, context) if code is None else handler.failed(request, code)


class AddPartitionsToTxnRule(Rule):
    """AddPartitionsToTxn: Write on the transactional id and on each topic; from brokers (since v4) ClusterAction."""

    __slots__ = ()
    _act = Need(CLUSTER, Operation.CLUSTER_ACTION)
    _write_id = Need(TRANSACTIONAL_ID, Operation.WRITE)
    _write = Need(TOPIC, Operation.WRITE)
    needs = (_write_id, _write, _act)

    def handle(
        self, handler: AnyHandler, request: AddPartitionsToTxnRequest, context: RequestContext, gate: Gate
    ) -> Answer:
        """See `Rule`. If one topic is refused, nothing is added."""
        if context.api_version >= 4:
            if not gate.allows(context, self._act):
                return AddPartitionsToTxnResponse(error_code=ERRORS[CLUSTER])
            return handler.handle(request, context)
        if not gate.allows(context, self._write_id, request.v3_and_below_transactional_id):
            return handler.failed(request, ERRORS[TRANSACTIONAL_ID])
        topics = request.v3_and_below_topics
        denied = {topic.name for topic in topics if not gate.allows(context, self._write, topic.name)}
        if not denied:
            return handler.handle(request, context)

        def code(topic: str, partition: int) -> ErrorCode:
            if topic in denied:
                return ERRORS[TOPIC]
            is_known = gate.snapshot.partition(topic, partition) is not None
            return ErrorCode.OPERATION_NOT_ATTEMPTED if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(
                            partition_index=one, partition_error_code=code(topic.name, one)
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in topics
            ]
        )


class DescribeTransactionsRule(Rule):
    """DescribeTransactions: Describe on each transactional id; topics that the client may not describe are left out."""

    __slots__ = ("_each",)
    _describe = Need(TRANSACTIONAL_ID, Operation.DESCRIBE)
    needs = (_describe, DESCRIBE_TOPIC)

    def __init__(self) -> None:
        self._each = Each("transactional_ids", "transaction_states", named(*self._describe, None), ())

    def handle(self, handler: AnyHandler, request: Any, context: RequestContext, gate: Gate) -> Answer:
        """See `Rule`."""

        def hide(response: Any) -> None:
            for state in response.transaction_states:
                state.topics = [topic for topic in state.topics if gate.sees(context, DESCRIBE_TOPIC, topic.topic)]

        return after(self._each.handle(handler, request, context, gate), hide)


class ListTransactionsRule(Rule):
    """ListTransactions: the transactions whose transactional id the client may describe."""

    __slots__ = ()
    _describe = Need(TRANSACTIONAL_ID, Operation.DESCRIBE)
    needs = (_describe,)

    def handle(self, handler: AnyHandler, request: Any, context: RequestContext, gate: Gate) -> Answer:
        """See `Rule`."""

        def hide(response: Any) -> None:
            states = response.transaction_states
            response.transaction_states = [
                one for one in states if gate.sees(context, self._describe, one.transactional_id)
            ]

        return after(handler.handle(request, context), hide)


class DescribeDelegationTokenRule(Rule):
    """DescribeDelegationToken: tokens of others need Describe on the token or DescribeTokens on its owner."""

    __slots__ = ()
    _describe = Need(ResourceType.DELEGATION_TOKEN, Operation.DESCRIBE)
    _describe_tokens = Need(ResourceType.USER, Operation.DESCRIBE_TOKENS)
    needs = (_describe, _describe_tokens)

    def handle(self, handler: AnyHandler, request: Any, context: RequestContext, gate: Gate) -> Answer:
        """See `Rule`."""

        def hide(response: Any) -> None:
            response.tokens = [token for token in response.tokens if self._is_visible(token, context, gate)]

        return after(handler.handle(request, context), hide)

    def _is_visible(self, token: Any, context: RequestContext, gate: Gate) -> bool:
        owner = Principal(token.principal_type, token.principal_name)
        requester = Principal(token.token_requester_principal_type, token.token_requester_principal_name)
        renewers = [Principal(one.principal_type, one.principal_name) for one in token.renewers]
        return (
            context.principal in (owner, requester, *renewers)
            or gate.sees(context, self._describe, token.token_id)
            or gate.sees(context, self._describe_tokens, str(owner))
        )
