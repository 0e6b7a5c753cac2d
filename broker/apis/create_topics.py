"""CreateTopics: answers when this broker knows a leader of every new partition, or after the timeout."""

from __future__ import annotations

import asyncio
from collections import Counter

from broker.errors import RequestError, unexpected_code
from broker.quotas.mutations import MutationQuota
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from broker.settings.described import DescribedConfig
from broker.topics import DEFAULT
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

FIRST_VERSION_WITH_CONFIGS = 5
FIRST_VERSION_WITH_QUOTA_ERROR = 6


class CreateTopicsHandler(Handler[CreateTopicsRequest, CreateTopicsResponse]):
    """Creates through `Topics`."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
        """See the module docstring."""
        if not self._services.is_controller():
            return self.failed(request, ErrorCode.NOT_CONTROLLER)
        quota = MutationQuota.of(self._services.quotas, context, strict_from=FIRST_VERSION_WITH_QUOTA_ERROR)
        times = Counter(topic.name for topic in request.topics)
        results: list[CreatableTopicResult] = []
        for topic in request.topics:
            try:
                if times[topic.name] > 1:
                    raise RequestError(ErrorCode.INVALID_REQUEST, "Found multiple entries for this topic.")
                result = await self._create(topic, quota, validate_only=request.validate_only)
                if context.api_version >= FIRST_VERSION_WITH_CONFIGS:
                    result.configs = self._configs(topic)
                results.append(result)
            except Exception as error:
                results.append(_refused(topic.name, error))
        if not request.validate_only:
            await self._wait(request, results)
        context.throttle_ms = quota.throttle_ms
        return CreateTopicsResponse(topics=results)

    async def _create(
        self, topic: CreatableTopic, quota: MutationQuota, *, validate_only: bool
    ) -> CreatableTopicResult:
        assignments = [one.partition_index for one in topic.assignments]
        if len(set(assignments)) != len(assignments):
            raise RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition is assigned twice.")
        names = [config.name for config in topic.configs]
        if len(set(names)) != len(names):
            raise RequestError(ErrorCode.INVALID_CONFIG, "A config is given twice.")
        created = await self._services.topics.create(
            topic.name,
            partitions=topic.num_partitions,
            replication_factor=topic.replication_factor,
            assignment={one.partition_index: list(one.broker_ids) for one in topic.assignments},
            overrides={config.name: config.value for config in topic.configs},
            validate_only=validate_only,
            take=quota.take,
        )
        return CreatableTopicResult(
            name=topic.name,
            topic_id=bytes(16) if validate_only else created.topic_id,
            error_message=None,
            num_partitions=created.partitions,
            replication_factor=created.replication_factor,
        )

    def _configs(self, topic: CreatableTopic) -> list[CreatableTopicConfigs]:
        """Return the settings of a topic that was created."""
        settings = {config.name: config.value for config in topic.configs if config.value is not None}
        return [_config(one) for one in self._services.configs.dynamic.describe_topic(settings)]

    async def _wait(self, request: CreateTopicsRequest, results: list[CreatableTopicResult]) -> None:
        """Wait for leaders. With a timeout of 0 or less, Kafka does not wait and answers REQUEST_TIMED_OUT."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + request.timeout_ms / 1000
        for result in results:
            if result.error_code != ErrorCode.NONE:
                continue
            left_s = deadline_s - loop.time()
            partitions = result.num_partitions
            if left_s <= 0 or not await self._services.topics.wait_until_led(result.name, partitions, left_s):
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
                result.num_partitions = DEFAULT
                result.replication_factor = DEFAULT
                result.configs = []

    def failed(self, request: CreateTopicsRequest, code: ErrorCode) -> CreateTopicsResponse:
        """Return the answer with the error for every topic."""
        error = RequestError(code, code.name)
        return CreateTopicsResponse(topics=[_refused(topic.name, error) for topic in request.topics])


def _refused(name: str, error: Exception) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        error_code=unexpected_code(error, "CreateTopics"),
        error_message=str(error) or None,
        num_partitions=DEFAULT,
        replication_factor=DEFAULT,
        configs=[],
    )


def _config(described: DescribedConfig) -> CreatableTopicConfigs:
    return CreatableTopicConfigs(
        name=described.name,
        value=described.value,
        read_only=described.read_only,
        config_source=described.source,
        is_sensitive=described.sensitive,
    )
