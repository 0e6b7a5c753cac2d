"""CreateTopics: answers when every new partition has a leader that this broker knows of, or when time is up."""

from __future__ import annotations

from collections import Counter

from broker.described_config import DescribedConfig
from broker.errors import RequestError, code_of
from broker.handler import Handler, Needs, Operation, Resource
from broker.request_context import RequestContext
from broker.services import Services
from broker.topics import DEFAULT
from protocol.error_codes import ErrorCode
from protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)


class CreateTopicsHandler(Handler[CreateTopicsRequest, CreateTopicsResponse]):
    """Creates through `Topics`."""

    __slots__ = ("_services",)
    needs = Needs(Resource.CLUSTER, Operation.CREATE)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
        """See the module's text."""
        if not self._services.is_controller():
            return self.failed(request, ErrorCode.NOT_CONTROLLER)
        times = Counter(topic.name for topic in request.topics)
        results: dict[str, CreatableTopicResult] = {}
        for topic in request.topics:
            if times[topic.name] > 1:
                error = RequestError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                results[topic.name] = _refused(topic.name, error)
                continue
            try:
                results[topic.name] = await self._create(topic, validate_only=request.validate_only)
            except Exception as error:
                results[topic.name] = _refused(topic.name, error)
        if not request.validate_only:
            await self._wait(request, results)
        return CreateTopicsResponse(topics=list(results.values()))

    async def _create(self, topic: CreatableTopic, *, validate_only: bool) -> CreatableTopicResult:
        assignments = [one.partition_index for one in topic.assignments]
        if len(set(assignments)) != len(assignments):
            raise RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition is assigned twice.")
        names = [config.name for config in topic.configs]
        if len(set(names)) != len(names):
            raise RequestError(ErrorCode.INVALID_CONFIG, "A config is given twice.")
        overrides = {config.name: config.value for config in topic.configs}
        created = await self._services.topics.create(
            topic.name,
            partitions=topic.num_partitions,
            replication_factor=topic.replication_factor,
            assignment={one.partition_index: list(one.broker_ids) for one in topic.assignments},
            overrides=overrides,
            validate_only=validate_only,
        )
        settings = {name: value for name, value in overrides.items() if value is not None}
        return CreatableTopicResult(
            name=topic.name,
            topic_id=bytes(16) if validate_only else created.topic_id,
            error_message=None,
            num_partitions=created.partitions,
            replication_factor=created.replication_factor,
            configs=[_config(one) for one in self._services.configs.dynamic.describe_topic(settings)],
        )

    async def _wait(self, request: CreateTopicsRequest, results: dict[str, CreatableTopicResult]) -> None:
        """Wait for leaders. With a timeout of 0 or less nobody waits, and Kafka says REQUEST_TIMED_OUT."""
        for result in results.values():
            if result.error_code != ErrorCode.NONE:
                continue
            partitions = result.num_partitions
            if not await self._services.topics.wait_until_led(result.name, partitions, request.timeout_ms / 1000):
                result.error_code = ErrorCode.REQUEST_TIMED_OUT
                result.error_message = "The topic is created, but not all of its partitions have a leader yet."

    def failed(self, request: CreateTopicsRequest, code: ErrorCode) -> CreateTopicsResponse:
        """Every topic of the request failed."""
        names = dict.fromkeys(topic.name for topic in request.topics)
        return CreateTopicsResponse(topics=[_refused(name, RequestError(code, code.name)) for name in names])


def _refused(name: str, error: Exception) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        error_code=code_of(error),
        error_message=str(error),
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
