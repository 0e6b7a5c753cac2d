"""IncrementalAlterConfigs: set, delete, append to or subtract from single settings (KIP-339)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

from broker.config_changes import ConfigChanges
from broker.dynamic_config import alter
from broker.errors import unexpected_code
from broker.handler import Handler, Needs, Operation, Resource
from broker.request_context import RequestContext
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from storage.setting import Setting


class IncrementalAlterConfigsHandler(Handler[IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse]):
    """Changes through `ConfigChanges`."""

    __slots__ = ("_changes",)
    needs = Needs(Resource.TOPIC, Operation.ALTER_CONFIGS)

    def __init__(self, services: Services) -> None:
        self._changes = ConfigChanges(services)

    async def handle(
        self, request: IncrementalAlterConfigsRequest, context: RequestContext
    ) -> IncrementalAlterConfigsResponse:
        """See the module's text."""
        responses = []
        times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
        for resource in request.resources:
            if times[(resource.resource_type, resource.resource_name)] > 1:
                message = "Each resource must appear at most once."
                responses.append(_response(resource, ErrorCode.INVALID_REQUEST, message))
                continue
            operations = [(config.name, config.config_operation, config.value) for config in resource.configs]
            try:
                await self._changes.alter(
                    resource.resource_type,
                    resource.resource_name,
                    partial(_altered, operations),
                    validate_only=request.validate_only,
                )
            except Exception as error:
                responses.append(_response(resource, unexpected_code(error, "IncrementalAlterConfigs"), str(error)))
            else:
                responses.append(_response(resource, ErrorCode.NONE, None))
        return IncrementalAlterConfigsResponse(responses=responses)

    def failed(self, request: IncrementalAlterConfigsRequest, code: ErrorCode) -> IncrementalAlterConfigsResponse:
        """Every resource of the request failed."""
        return IncrementalAlterConfigsResponse(
            responses=[_response(resource, code, code.name) for resource in request.resources]
        )


def _altered(
    operations: Iterable[tuple[str, int, str | None]],
    current: Mapping[str, str],
    settings: Mapping[str, Setting],
) -> dict[str, str]:
    return alter(current, operations, settings)


def _response(resource: AlterConfigsResource, code: ErrorCode, message: str | None) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
