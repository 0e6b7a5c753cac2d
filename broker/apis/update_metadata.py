"""UpdateMetadata: the controller says who is alive and who leads."""

from __future__ import annotations

from broker.handler import Handler, Needs, Operation, Resource
from broker.request_context import RequestContext
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse


class UpdateMetadataHandler(Handler[UpdateMetadataRequest, UpdateMetadataResponse]):
    """Replaces the metadata cache's snapshot."""

    __slots__ = ("_services",)
    needs = Needs(Resource.CLUSTER, Operation.CLUSTER_ACTION)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, request: UpdateMetadataRequest, context: RequestContext) -> UpdateMetadataResponse:
        """Raises StaleBrokerEpochError, StaleControllerEpochError for the whole request."""
        self._services.check_broker_epoch(request.broker_epoch)
        self._services.replicas.check_controller_epoch(request.controller_epoch)
        for topic in {topic for topic, _ in self._services.metadata.update(request)}:
            self._services.configs.forget_topic(topic)
        return UpdateMetadataResponse()

    def failed(self, request: UpdateMetadataRequest, code: ErrorCode) -> UpdateMetadataResponse:
        """The whole request was refused."""
        return UpdateMetadataResponse(error_code=code)
