"""UpdateMetadata: the controller tells this broker the live brokers and the leaders of all partitions."""

from __future__ import annotations

import logging

from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from broker.topic_names import replica_name_problem
from protocol.error_codes import ErrorCode
from protocol.messages.update_metadata import (
    UpdateMetadataEndpoint,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)

logger = logging.getLogger(__name__)

FIRST_VERSION_WITH_LISTENERS = 3
SECURITY_PROTOCOLS = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}


class UpdateMetadataHandler(Handler[UpdateMetadataRequest, UpdateMetadataResponse]):
    """Replaces the metadata cache's snapshot."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, request: UpdateMetadataRequest, context: RequestContext) -> UpdateMetadataResponse:
        """Raises StaleBrokerEpochError, StaleControllerEpochError for the whole request."""
        self._services.check_broker_epoch(request.broker_epoch)
        self._services.replicas.controller_requests.check_controller(
            request.controller_epoch, context.connection.number
        )
        if context.api_version < FIRST_VERSION_WITH_LISTENERS:
            _name_listeners(request)
        _drop_invalid(request)
        metadata = self._services.metadata
        brokers_before = metadata.snapshot.brokers.keys()
        deleted = metadata.update(request)
        died = brokers_before - metadata.snapshot.brokers.keys()
        if died:
            self._services.replicas.brokers_died(died)
        for topic in {topic for topic, _ in deleted}:
            self._services.configs.forget_topic(topic)
        if deleted:
            self._services.coordination.groups.offsets.partitions_deleted(deleted)
        return UpdateMetadataResponse()

    def failed(self, request: UpdateMetadataRequest, code: ErrorCode) -> UpdateMetadataResponse:
        """Return the answer to a refused request."""
        return UpdateMetadataResponse(error_code=code)


def _drop_invalid(request: UpdateMetadataRequest) -> None:
    """Remove partitions with invalid names or numbers: the answer has only one code for the whole request."""

    def is_valid(topic: str, partition: int) -> bool:
        problem = replica_name_problem(topic, partition)
        if problem is not None:
            logger.warning("UpdateMetadata of controller %d: %s", request.controller_id, problem)
        return problem is None

    request.ungrouped_partition_states = [
        state for state in request.ungrouped_partition_states if is_valid(state.topic_name, state.partition_index)
    ]
    for topic in request.topic_states:
        topic.partition_states = [
            state for state in topic.partition_states if is_valid(topic.topic_name, state.partition_index)
        ]


def _name_listeners(request: UpdateMetadataRequest) -> None:
    """Name the listeners of old versions after their security protocols; v0 has only PLAINTEXT."""
    for broker in request.live_brokers:
        if not broker.endpoints and broker.v0_host:
            broker.endpoints = [UpdateMetadataEndpoint(host=broker.v0_host, port=broker.v0_port, security_protocol=0)]
        for endpoint in broker.endpoints:
            endpoint.listener = SECURITY_PROTOCOLS.get(endpoint.security_protocol, "")
