"""ElectLeaders: elect the preferred leaders, or, unclean, any live replica (KIP-183, KIP-460).

The answer is sent when this broker's metadata has the new leaders, or after the timeout. If the request is for all
partitions, the answer leaves out those that need no election.
"""

from __future__ import annotations

import asyncio
from functools import partial

from broker.cluster.metadata_cache import Snapshot
from broker.controller.context import TopicPartition
from broker.controller.elections import ElectionType, Outcome
from broker.errors import NotControllerError
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

FIRST_VERSION_WITH_ERROR_CODE = 1


class ElectLeadersHandler(Handler[ElectLeadersRequest, ElectLeadersResponse]):
    """Makes the controller elect leaders."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
        """See the module docstring."""
        keys = _keys(request)
        try:
            controller = self._services.acting_controller()
            kind = ElectionType(request.election_type)
            outcomes = await controller.decide("ElectLeaders", partial(controller.elections.elect, keys, kind))
        except NotControllerError as error:
            return refused(request, error.code, context.api_version)
        except ValueError:
            return refused(request, ErrorCode.INVALID_REQUEST, context.api_version)
        elected = {
            key: controller.context.leaderships[key].state.leader
            for key, (code, _) in outcomes.items()
            if code is ErrorCode.NONE and key in controller.context.leaderships
        }
        await self._wait(elected, outcomes, request.timeout_ms)
        results: dict[str, ReplicaElectionResult] = {}
        for (topic, partition), (code, message) in outcomes.items():
            if keys is None and code is ErrorCode.ELECTION_NOT_NEEDED:
                continue
            results.setdefault(topic, ReplicaElectionResult(topic=topic)).partition_result.append(
                PartitionResult(partition_id=partition, error_code=code, error_message=message)
            )
        return ElectLeadersResponse(replica_election_results=list(results.values()))

    async def _wait(
        self, elected: dict[TopicPartition, int], outcomes: dict[TopicPartition, Outcome], timeout_ms: int
    ) -> None:
        """Wait until the metadata has the new leaders; partitions without it at the timeout get REQUEST_TIMED_OUT."""
        metadata = self._services.metadata
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_ms / 1000

        for key, leader in elected.items():

            def is_told(snapshot: Snapshot, key: TopicPartition = key, leader: int = leader) -> bool:
                state = snapshot.partition(*key)
                return state is not None and state.leader == leader

            if not await metadata.wait_until(is_told, deadline_s - loop.time()):
                outcomes[key] = (ErrorCode.REQUEST_TIMED_OUT, None)

    def failed(self, request: ElectLeadersRequest, code: ErrorCode) -> ElectLeadersResponse:
        """Return the answer with the error for every named partition, or for the whole request if it names none."""
        return refused(request, code, 0 if request.topic_partitions else FIRST_VERSION_WITH_ERROR_CODE)


def refused(request: ElectLeadersRequest, code: ErrorCode, version: int) -> ElectLeadersResponse:
    """Return the answer to a refused request: the code for the request (since version 1) and for each partition."""
    results: dict[str, ReplicaElectionResult] = {}
    for topic, partition in _keys(request) or ():
        results.setdefault(topic, ReplicaElectionResult(topic=topic)).partition_result.append(
            PartitionResult(partition_id=partition, error_code=code, error_message=None)
        )
    return ElectLeadersResponse(
        error_code=code if version >= FIRST_VERSION_WITH_ERROR_CODE else ErrorCode.NONE,
        replica_election_results=list(results.values()),
    )


def _keys(request: ElectLeadersRequest) -> list[TopicPartition] | None:
    if request.topic_partitions is None:
        return None
    return [(one.topic, partition) for one in request.topic_partitions for partition in one.partitions]
