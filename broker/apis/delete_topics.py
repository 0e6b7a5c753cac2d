"""DeleteTopics: by name or, since version 6, by id. Answers when clients do not see the topics any more."""

from __future__ import annotations

import asyncio

from broker.errors import RequestError, unexpected_code
from broker.quotas.mutations import MutationQuota
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from protocol.uuid import ZERO_UUID

FIRST_VERSION_WITH_DISABLED_CODE = 3
FIRST_VERSION_WITH_QUOTA_ERROR = 5
FIRST_VERSION_WITH_IDS = 6


class DeleteTopicsHandler(Handler[DeleteTopicsRequest, DeleteTopicsResponse]):
    """Deletes through `Topics`."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
        """See the module docstring."""
        if not self._services.is_controller():
            return self.failed(request, ErrorCode.NOT_CONTROLLER)
        topics = _topics(request)
        if not self._services.config.delete_topic_enable:
            is_old = context.api_version < FIRST_VERSION_WITH_DISABLED_CODE
            return self.failed(request, ErrorCode.INVALID_REQUEST if is_old else ErrorCode.TOPIC_DELETION_DISABLED)
        if any(topic.name is not None and topic.topic_id != ZERO_UUID for topic in topics):
            return self.failed(request, ErrorCode.INVALID_REQUEST)
        quota = MutationQuota.of(self._services.quotas, context, strict_from=FIRST_VERSION_WITH_QUOTA_ERROR)
        results = []
        for topic in topics:
            name = topic.name
            code = ErrorCode.NONE
            try:
                name = self._name_of(topic)
                await self._services.topics.delete(name, take=quota.take)
            except Exception as error:
                code = unexpected_code(error, "DeleteTopics")
            results.append(_result(topic, name, code))
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + request.timeout_ms / 1000
        for result in results:
            if result.error_code == ErrorCode.NONE:
                assert result.name is not None
                left_s = deadline_s - loop.time()
                if left_s <= 0 or not await self._services.topics.wait_until_deleted(result.name, left_s):
                    result.error_code = ErrorCode.REQUEST_TIMED_OUT
        context.throttle_ms = quota.throttle_ms
        return DeleteTopicsResponse(responses=results)

    def _name_of(self, topic: DeleteTopicState) -> str:
        if topic.name is not None:
            return topic.name
        name = self._services.metadata.snapshot.topic_names.get(topic.topic_id)
        if name is None:
            raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        return name

    def failed(self, request: DeleteTopicsRequest, code: ErrorCode) -> DeleteTopicsResponse:
        """Return the answer with the error for every topic."""
        return DeleteTopicsResponse(responses=[_result(topic, topic.name, code) for topic in _topics(request)])


def _topics(request: DeleteTopicsRequest) -> list[DeleteTopicState]:
    return request.topics or [DeleteTopicState(name=name, topic_id=ZERO_UUID) for name in request.topic_names]


def _result(topic: DeleteTopicState, name: str | None, code: ErrorCode) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic.topic_id, error_code=code)
