"""AlterReplicaLogDirs: have replicas of this broker in other log directories of it (KIP-113).

It is answered when the moves have begun; DescribeLogDirs tells which are not done. A replica that is not here yet is
answered REPLICA_NOT_AVAILABLE, and will be begun in the named directory.
"""

from __future__ import annotations

import logging

from broker.errors import unexpected_code
from broker.requests.context import RequestContext
from broker.requests.handler import Handler, Needs, Operation, Resource
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

logger = logging.getLogger(__name__)


class AlterReplicaLogDirsHandler(Handler[AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse]):
    """Hands the replicas to those who move them."""

    __slots__ = ("_services",)
    needs = Needs(Resource.CLUSTER, Operation.ALTER)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: AlterReplicaLogDirsRequest, context: RequestContext) -> AlterReplicaLogDirsResponse:
        """See the module's text. Of a replica that is named twice the last directory counts."""
        return _answer({key: await self._alter(*key, path) for key, path in _paths(request).items()})

    async def _alter(self, topic: str, partition: int, path: str) -> ErrorCode:
        moves = self._services.replicas.moves
        assert moves is not None
        try:
            await moves.alter(topic, partition, path)
        except Exception as error:
            logger.warning("%s-%d is not moved to %s: %s", topic, partition, path, error)
            return unexpected_code(error, "AlterReplicaLogDirs")
        return ErrorCode.NONE

    def failed(self, request: AlterReplicaLogDirsRequest, code: ErrorCode) -> AlterReplicaLogDirsResponse:
        """The whole request was refused."""
        return _answer(dict.fromkeys(_paths(request), code))


def _paths(request: AlterReplicaLogDirsRequest) -> dict[tuple[str, int], str]:
    return {
        (topic.name, partition): one.path
        for one in request.dirs
        for topic in one.topics
        for partition in topic.partitions
    }


def _answer(codes: dict[tuple[str, int], ErrorCode]) -> AlterReplicaLogDirsResponse:
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (topic, partition), code in codes.items():
        topics.setdefault(topic, AlterReplicaLogDirTopicResult(topic_name=topic)).partitions.append(
            AlterReplicaLogDirPartitionResult(partition_index=partition, error_code=code)
        )
    return AlterReplicaLogDirsResponse(results=list(topics.values()))
