"""AlterConfigs: replace all settings of a resource with those of the request (KIP-133)."""

from __future__ import annotations

from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from broker.settings.changes import Change, ConfigChanges
from broker.settings.dynamic import replace
from protocol.error_codes import ErrorCode
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


class AlterConfigsHandler(Handler[AlterConfigsRequest, AlterConfigsResponse]):
    """Changes through `ConfigChanges`."""

    __slots__ = ("_changes",)

    def __init__(self, services: Services) -> None:
        self._changes = ConfigChanges(services)

    async def handle(self, request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
        """See the module docstring."""
        outcomes = await self._changes.alter_each(request.resources, _change, validate_only=request.validate_only)
        return AlterConfigsResponse(responses=[_response(*outcome) for outcome in outcomes])

    def failed(self, request: AlterConfigsRequest, code: ErrorCode) -> AlterConfigsResponse:
        """Return the answer with the error for every resource."""
        return AlterConfigsResponse(responses=[_response(resource, code, code.name) for resource in request.resources])


def _change(resource: AlterConfigsResource) -> Change:
    values = [(config.name, config.value) for config in resource.configs]
    return lambda current, settings: replace(values)


def _response(resource: AlterConfigsResource, code: ErrorCode, message: str | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
