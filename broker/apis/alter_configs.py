"""AlterConfigs: replace all settings of a resource by those of the request (KIP-133)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

from broker.config_changes import ConfigChanges
from broker.dynamic_config import replace
from broker.errors import unexpected_code
from broker.handler import Handler, Needs, Operation, Resource
from broker.request_context import RequestContext
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from storage.setting import Setting


class AlterConfigsHandler(Handler[AlterConfigsRequest, AlterConfigsResponse]):
    """Changes through `ConfigChanges`."""

    __slots__ = ("_changes",)
    needs = Needs(Resource.TOPIC, Operation.ALTER_CONFIGS)

    def __init__(self, services: Services) -> None:
        self._changes = ConfigChanges(services)

    async def handle(self, request: AlterConfigsRequest, context: RequestContext) -> AlterConfigsResponse:
        """See the module's text."""
        responses = []
        times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
        for resource in request.resources:
            if times[(resource.resource_type, resource.resource_name)] > 1:
                message = "Each resource must appear at most once."
                responses.append(_response(resource, ErrorCode.INVALID_REQUEST, message))
                continue
            values = [(config.name, config.value) for config in resource.configs]
            try:
                await self._changes.alter(
                    resource.resource_type,
                    resource.resource_name,
                    partial(_replaced, values),
                    validate_only=request.validate_only,
                )
            except Exception as error:
                responses.append(_response(resource, unexpected_code(error, "AlterConfigs"), str(error)))
            else:
                responses.append(_response(resource, ErrorCode.NONE, None))
        return AlterConfigsResponse(responses=responses)

    def failed(self, request: AlterConfigsRequest, code: ErrorCode) -> AlterConfigsResponse:
        """Every resource of the request failed."""
        return AlterConfigsResponse(responses=[_response(resource, code, code.name) for resource in request.resources])


def _replaced(
    values: Iterable[tuple[str, str | None]], current: Mapping[str, str], settings: Mapping[str, Setting]
) -> dict[str, str]:
    return replace(values)


def _response(resource: AlterConfigsResource, code: ErrorCode, message: str | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
