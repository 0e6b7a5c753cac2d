"""AlterPartition: the leader of partitions proposes a new ISR for each (KIP-497, KIP-841, KIP-903).

The controller answers for each partition with its current state, or with the error of the proposal. Versions 0 and 1
have topic names, later versions topic ids; version 3 adds the broker epochs of the in-sync replicas.
"""

from __future__ import annotations

from broker.controller.alter_partition import Outcome, Proposal
from broker.controller.context import TopicPartition
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    ResponsePartitionData,
    ResponseTopicData,
    TopicData,
)
from protocol.sentinels import UNKNOWN_BROKER_EPOCH

FIRST_VERSION_WITH_TOPIC_IDS = 2
FIRST_VERSION_WITH_BROKER_EPOCHS = 3


class AlterPartitionHandler(Handler[AlterPartitionRequest, AlterPartitionResponse]):
    """Passes the proposals to the controller, which decides."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: AlterPartitionRequest, context: RequestContext) -> AlterPartitionResponse:
        """Raises NotControllerError, RequestError (STALE_BROKER_EPOCH) for the whole request."""
        controller = self._services.acting_controller()
        names: list[str | None] = []

        def proposals() -> dict[TopicPartition, Proposal]:
            names.clear()  # the controller asks again if the registry's connection was lost
            by_id = {znode.topic_id: name for name, znode in controller.context.topics.items()}
            proposed: dict[TopicPartition, Proposal] = {}
            for topic in request.topics:
                has_id = context.api_version >= FIRST_VERSION_WITH_TOPIC_IDS
                name = by_id.get(topic.topic_id) if has_id else topic.topic_name
                names.append(name)
                if name is not None:
                    for one in topic.partitions:
                        proposed[(name, one.partition_index)] = _proposal(one, context.api_version)
            return proposed

        outcomes = await controller.alter_partitions(request.broker_id, request.broker_epoch, proposals)
        return AlterPartitionResponse(
            topics=[
                ResponseTopicData(
                    topic_name=topic.topic_name,
                    topic_id=topic.topic_id,
                    partitions=_answers(topic, name, outcomes, context.api_version),
                )
                for topic, name in zip(request.topics, names, strict=True)
            ]
        )

    def failed(self, request: AlterPartitionRequest, code: ErrorCode) -> AlterPartitionResponse:
        """Return the answer to a refused request."""
        return AlterPartitionResponse(error_code=code)


def _proposal(one: PartitionData, version: int) -> Proposal:
    if version >= FIRST_VERSION_WITH_BROKER_EPOCHS:
        isr = {broker.broker_id: broker.broker_epoch for broker in one.new_isr_with_epochs}
    else:
        isr = dict.fromkeys(one.new_isr, UNKNOWN_BROKER_EPOCH)
    return Proposal(one.leader_epoch, one.partition_epoch, isr, one.leader_recovery_state)


def _answers(
    topic: TopicData, name: str | None, outcomes: dict[TopicPartition, Outcome], version: int
) -> list[ResponsePartitionData]:
    if name is None:
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
        return [
            ResponsePartitionData(partition_index=one.partition_index, error_code=unknown) for one in topic.partitions
        ]
    return [_answer(one.partition_index, outcomes[(name, one.partition_index)], version) for one in topic.partitions]


def _answer(partition: int, outcome: Outcome, version: int) -> ResponsePartitionData:
    if isinstance(outcome, ErrorCode):
        if outcome is ErrorCode.INELIGIBLE_REPLICA and version < FIRST_VERSION_WITH_TOPIC_IDS:
            outcome = ErrorCode.OPERATION_NOT_ATTEMPTED  # INELIGIBLE_REPLICA exists since version 2
        return ResponsePartitionData(partition_index=partition, error_code=outcome)
    return ResponsePartitionData(
        partition_index=partition,
        leader_id=outcome.state.leader,
        leader_epoch=outcome.state.leader_epoch,
        isr=outcome.state.isr,
        leader_recovery_state=outcome.state.leader_recovery_state,
        partition_epoch=outcome.partition_epoch,
    )
