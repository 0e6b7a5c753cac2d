"""CreatePartitions: add partitions to topics (KIP-195). Answers when they have leaders, or after the timeout."""

from __future__ import annotations

import asyncio
from collections import Counter

from broker.errors import RequestError, unexpected_code
from broker.quotas.mutations import MutationQuota
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)

FIRST_VERSION_WITH_QUOTA_ERROR = 3


class CreatePartitionsHandler(Handler[CreatePartitionsRequest, CreatePartitionsResponse]):
    """Adds partitions through `Topics`."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: CreatePartitionsRequest, context: RequestContext) -> CreatePartitionsResponse:
        """See the module docstring."""
        if not self._services.is_controller():
            return self.failed(request, ErrorCode.NOT_CONTROLLER)
        quota = MutationQuota.of(self._services.quotas, context, strict_from=FIRST_VERSION_WITH_QUOTA_ERROR)
        times = Counter(topic.name for topic in request.topics)
        results: dict[str, CreatePartitionsTopicResult] = {}
        for topic in request.topics:
            try:
                if times[topic.name] > 1:
                    raise RequestError(ErrorCode.INVALID_REQUEST, "Duplicate topic in request.")
                await self._grow(topic, quota, validate_only=request.validate_only)
            except Exception as error:
                results[topic.name] = CreatePartitionsTopicResult(
                    name=topic.name,
                    error_code=unexpected_code(error, "CreatePartitions"),
                    error_message=str(error) or None,
                )
                continue
            results[topic.name] = CreatePartitionsTopicResult(name=topic.name)
        if not request.validate_only:
            loop = asyncio.get_running_loop()
            deadline_s = loop.time() + request.timeout_ms / 1000
            for topic in request.topics:
                result = results[topic.name]
                if result.error_code != ErrorCode.NONE:
                    continue
                left_s = deadline_s - loop.time()
                if left_s <= 0 or not await self._services.topics.wait_until_led(topic.name, topic.count, left_s):
                    result.error_code = ErrorCode.REQUEST_TIMED_OUT
        context.throttle_ms = quota.throttle_ms
        return CreatePartitionsResponse(results=list(results.values()))

    async def _grow(self, topic: CreatePartitionsTopic, quota: MutationQuota, *, validate_only: bool) -> None:
        assignment = None
        if topic.assignments is not None:
            assignment = [list(one.broker_ids) for one in topic.assignments]
        await self._services.topics.add_partitions(
            topic.name, topic.count, assignment=assignment, validate_only=validate_only, take=quota.take
        )

    def failed(self, request: CreatePartitionsRequest, code: ErrorCode) -> CreatePartitionsResponse:
        """Return the answer with the error for every topic."""
        names = dict.fromkeys(topic.name for topic in request.topics)
        return CreatePartitionsResponse(
            results=[CreatePartitionsTopicResult(name=name, error_code=code) for name in names]
        )
