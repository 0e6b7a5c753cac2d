"""DescribeLogDirs: the replicas of each log directory, and the size and free space of its volume (KIP-113, KIP-827).

An offline directory is answered with KAFKA_STORAGE_ERROR and nothing else. A replica that is being moved is in two
directories: the current one, and, as a future replica, the one that it is copied to.
"""

from __future__ import annotations

import shutil

from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from storage.directories.future_logs import is_future
from storage.directories.log_directory import LogDirectory
from storage.log.log import Log

UNKNOWN_LAG = -1


class DescribeLogDirsHandler(Handler[DescribeLogDirsRequest, DescribeLogDirsResponse]):
    """Answers from the log manager."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, request: DescribeLogDirsRequest, context: RequestContext) -> DescribeLogDirsResponse:
        """See the module docstring. A null topic list means all topics."""
        asked = (
            None
            if request.topics is None
            else {(topic.topic, partition) for topic in request.topics for partition in topic.partitions}
        )
        return DescribeLogDirsResponse(
            results=[self._describe(directory, asked) for directory in self._services.logs.dirs.all]
        )

    def _describe(self, directory: LogDirectory, asked: set[tuple[str, int]] | None) -> DescribeLogDirsResult:
        log_dir = str(directory.path.absolute())
        try:
            usage = shutil.disk_usage(directory.path) if directory.is_online else None
        except OSError:
            usage = None
        if usage is None:
            return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=log_dir)
        topics: dict[str, DescribeLogDirsTopic] = {}
        for log in self._services.logs.all_logs():
            if log.directory.parent != directory.path:
                continue
            if asked is not None and (log.topic, log.partition) not in asked:
                continue
            topic = topics.setdefault(log.topic, DescribeLogDirsTopic(name=log.topic))
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=log.partition,
                    partition_size=log.size_bytes,
                    offset_lag=self._lag(log),
                    is_future_key=is_future(log.directory),
                )
            )
        return DescribeLogDirsResult(
            log_dir=log_dir, topics=list(topics.values()), total_bytes=usage.total, usable_bytes=usage.free
        )

    def _lag(self, log: Log) -> int:
        """Return how far a future replica is behind the log end offset, or a log behind the high watermark.

        -1 if the replica is not served.
        """
        partition = self._services.replicas.partitions.get((log.topic, log.partition))
        served = None if partition is None else partition.log
        if served is None:
            return UNKNOWN_LAG
        if is_future(log.directory):
            return served.log_end_offset - log.log_end_offset
        return max(0, served.high_watermark - log.log_end_offset)

    def failed(self, request: DescribeLogDirsRequest, code: ErrorCode) -> DescribeLogDirsResponse:
        """Return the answer to a failed request."""
        return DescribeLogDirsResponse(error_code=code)
