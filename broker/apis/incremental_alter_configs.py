"""IncrementalAlterConfigs: set, delete, append to or subtract from single settings (KIP-339)."""

from __future__ import annotations

from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from broker.settings.changes import Change, ConfigChanges
from broker.settings.dynamic import Operation as LevelOperation
from broker.settings.dynamic import alter
from protocol.error_codes import ErrorCode
from protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class IncrementalAlterConfigsHandler(Handler[IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse]):
    """Changes through `ConfigChanges`."""

    __slots__ = ("_changes",)

    def __init__(self, services: Services) -> None:
        self._changes = ConfigChanges(services)

    async def handle(
        self, request: IncrementalAlterConfigsRequest, context: RequestContext
    ) -> IncrementalAlterConfigsResponse:
        """See the module docstring."""
        outcomes = await self._changes.alter_each(
            request.resources, _change, _operations, validate_only=request.validate_only
        )
        return IncrementalAlterConfigsResponse(responses=[_response(*outcome) for outcome in outcomes])

    def failed(self, request: IncrementalAlterConfigsRequest, code: ErrorCode) -> IncrementalAlterConfigsResponse:
        """Return the answer with the error for every resource."""
        return IncrementalAlterConfigsResponse(
            responses=[_response(resource, code, code.name) for resource in request.resources]
        )


def _operations(resource: AlterConfigsResource) -> list[LevelOperation]:
    return [(config.name, config.config_operation, config.value) for config in resource.configs]


def _change(resource: AlterConfigsResource) -> Change:
    operations = _operations(resource)
    return lambda current, settings: alter(current, operations, settings)


def _response(resource: AlterConfigsResource, code: ErrorCode, message: str | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
