"""DescribeConfigs: settings with their sources and synonyms (KIP-133, KIP-226)."""

from __future__ import annotations

from broker.errors import RequestError, code_of
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from broker.settings.changes import ConfigChanges, ConfigResource
from broker.settings.described import DescribedConfig
from protocol.error_codes import ErrorCode
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


class DescribeConfigsHandler(Handler[DescribeConfigsRequest, DescribeConfigsResponse]):
    """Describes through `ConfigChanges`."""

    __slots__ = ("_changes",)

    def __init__(self, services: Services) -> None:
        self._changes = ConfigChanges(services)

    async def handle(self, request: DescribeConfigsRequest, context: RequestContext) -> DescribeConfigsResponse:
        """See the module docstring."""
        if any(resource.resource_type == ConfigResource.TOPIC for resource in request.resources):
            await self._changes.see_latest()  # the others are described without the registry
        return DescribeConfigsResponse(
            results=[await self._describe(resource, request, context) for resource in request.resources]
        )

    async def _describe(
        self, resource: DescribeConfigsResource, request: DescribeConfigsRequest, context: RequestContext
    ) -> DescribeConfigsResult:
        keys = resource.configuration_keys
        try:
            described = await self._changes.describe(resource.resource_type, resource.resource_name, keys)
        except RequestError as error:
            return _failed(resource, code_of(error), str(error))
        return DescribeConfigsResult(
            error_message="",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=[_row(one, request, context.api_version) for one in described],
        )

    def failed(self, request: DescribeConfigsRequest, code: ErrorCode) -> DescribeConfigsResponse:
        """Return the answer with the error for every resource."""
        return DescribeConfigsResponse(results=[_failed(resource, code, code.name) for resource in request.resources])


def _row(one: DescribedConfig, request: DescribeConfigsRequest, version: int) -> DescribeConfigsResourceResult:
    synonyms = one.synonyms if request.include_synonyms else []
    return DescribeConfigsResourceResult(
        name=one.name,
        value=one.value,
        read_only=one.read_only,
        is_default=one.is_default and version == 0,
        config_source=one.source,
        is_sensitive=one.sensitive,
        synonyms=[DescribeConfigsSynonym(name=name, value=value, source=source) for name, value, source in synonyms],
        config_type=one.type,
        documentation=one.documentation if request.include_documentation else None,
    )


def _failed(resource: DescribeConfigsResource, code: ErrorCode, message: str) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )
