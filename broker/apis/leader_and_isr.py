"""LeaderAndIsr: the controller tells this broker which partitions it leads or follows."""

from __future__ import annotations

import logging

from broker.errors import code_of
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from broker.topic_names import replica_name_problem
from protocol.error_codes import ErrorCode
from protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from protocol.uuid import ZERO_UUID
from replication.errors import StaleBrokerEpochError, StaleControllerEpochError

logger = logging.getLogger(__name__)

FIRST_VERSION_WITH_TOPIC_IDS = 5


class LeaderAndIsrHandler(Handler[LeaderAndIsrRequest, LeaderAndIsrResponse]):
    """Passes the partition states to the replica manager."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: LeaderAndIsrRequest, context: RequestContext) -> LeaderAndIsrResponse:
        """See the module docstring."""
        controller_requests = self._services.replicas.controller_requests
        try:
            self._services.check_broker_epoch(request.broker_epoch)
            controller_requests.check_controller(request.controller_epoch, context.connection.number)
        except (StaleBrokerEpochError, StaleControllerEpochError) as error:
            return refused(request, code_of(error), context.api_version)
        states, invalid = [], {}
        for topic, topic_id, state in _states(request):
            problem = replica_name_problem(topic, state.partition_index)
            if problem is None:
                states.append((topic, topic_id, state))
            else:
                logger.warning("LeaderAndIsr of controller %d: %s", request.controller_id, problem)
                invalid[topic, state.partition_index] = ErrorCode.INVALID_TOPIC_EXCEPTION
        created = {topic for topic, _, state in states if state.is_new}
        await self._services.configs.load_topics({topic for topic, _, _ in states}, created)
        outcomes = await controller_requests.become_leader_or_follower(states)
        self._services.certainty.told(request.broker_epoch)
        codes = {key: ErrorCode.NONE if error is None else code_of(error) for key, error in outcomes.items()} | invalid
        if context.api_version < FIRST_VERSION_WITH_TOPIC_IDS:
            return LeaderAndIsrResponse(
                partition_errors=[
                    LeaderAndIsrPartitionError(topic_name=topic, partition_index=partition, error_code=code)
                    for (topic, partition), code in codes.items()
                ]
            )
        topics: dict[bytes, LeaderAndIsrTopicError] = {}
        for topic, topic_id, state in _states(request):
            answer = topics.setdefault(topic_id, LeaderAndIsrTopicError(topic_id=topic_id))
            answer.partition_errors.append(
                LeaderAndIsrPartitionError(
                    partition_index=state.partition_index, error_code=codes[(topic, state.partition_index)]
                )
            )
        return LeaderAndIsrResponse(topics=list(topics.values()))

    def failed(self, request: LeaderAndIsrRequest, code: ErrorCode) -> LeaderAndIsrResponse:
        """Return the answer to a refused request."""
        return LeaderAndIsrResponse(error_code=code)


def refused(request: LeaderAndIsrRequest, code: ErrorCode, version: int) -> LeaderAndIsrResponse:
    """Return the answer to a request with a stale epoch: the code for the request and for each partition."""
    if version < FIRST_VERSION_WITH_TOPIC_IDS:
        return LeaderAndIsrResponse(
            error_code=code,
            partition_errors=[
                LeaderAndIsrPartitionError(topic_name=topic, partition_index=state.partition_index, error_code=code)
                for topic, _, state in _states(request)
            ],
        )
    return LeaderAndIsrResponse(
        error_code=code,
        topics=[
            LeaderAndIsrTopicError(
                topic_id=topic.topic_id,
                partition_errors=[
                    LeaderAndIsrPartitionError(partition_index=state.partition_index, error_code=code)
                    for state in topic.partition_states
                ],
            )
            for topic in request.topic_states
        ],
    )


def _states(request: LeaderAndIsrRequest) -> list[tuple[str, bytes, LeaderAndIsrPartitionState]]:
    flat = [(state.topic_name, ZERO_UUID, state) for state in request.ungrouped_partition_states]
    grouped = [
        (topic.topic_name, topic.topic_id, state) for topic in request.topic_states for state in topic.partition_states
    ]
    return flat + grouped
