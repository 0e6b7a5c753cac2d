"""UpdateFeatures: refuse each update, because a cluster with ZooKeeper supports no features (KIP-584).

`/feature` exists and is empty; Kafka 3.9's brokers in ZooKeeper mode support no features either, so every update names
an unsupported feature. Kafka in this mode answers NONE for each feature, which its own code calls wrong; Ottla answers
with an error.
"""

from __future__ import annotations

from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

NOT_SUPPORTED = "Could not apply finalized feature update because the provided feature is not supported."


class UpdateFeaturesHandler(Handler[UpdateFeaturesRequest, UpdateFeaturesResponse]):
    """Refuses each update."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, request: UpdateFeaturesRequest, context: RequestContext) -> UpdateFeaturesResponse:
        """Raises NotControllerError."""
        self._services.acting_controller()
        return UpdateFeaturesResponse(
            error_message=None,
            results=[
                UpdatableFeatureResult(
                    feature=one.feature, error_code=ErrorCode.INVALID_REQUEST, error_message=NOT_SUPPORTED
                )
                for one in request.feature_updates
            ],
        )

    def failed(self, request: UpdateFeaturesRequest, code: ErrorCode) -> UpdateFeaturesResponse:
        """Return the answer to a refused request."""
        return UpdateFeaturesResponse(error_code=code, error_message=None)
