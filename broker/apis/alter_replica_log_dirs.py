"""AlterReplicaLogDirs: move replicas of this broker to other log directories of the broker (KIP-113).

The answer is sent when the moves have started; DescribeLogDirs lists those that are not completed. A replica that does
not exist yet is answered with REPLICA_NOT_AVAILABLE, and will be created in the named directory.
"""

from __future__ import annotations

import logging

from broker.errors import unexpected_code
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
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
    """Starts the moves through the replica manager."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: AlterReplicaLogDirsRequest, context: RequestContext) -> AlterReplicaLogDirsResponse:
        """See the module docstring. If a replica is named twice, the last directory is used."""
        return _answer({key: await self._alter(*key, path) for key, path in _paths(request).items()})

    async def _alter(self, topic: str, partition: int, path: str) -> ErrorCode:
        moves = self._services.replicas.moves
        assert moves is not None
        try:
            await moves.alter(topic, partition, path)
        except Exception as error:
            logger.warning("%s-%d: cannot move the replica to %s: %s", topic, partition, path, error)
            return unexpected_code(error, "AlterReplicaLogDirs")
        return ErrorCode.NONE

    def failed(self, request: AlterReplicaLogDirsRequest, code: ErrorCode) -> AlterReplicaLogDirsResponse:
        """Return the answer to a refused request."""
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
