"""DescribeClientQuotas: the quotas of the entities that match a filter (KIP-546), as the registry has them."""

from __future__ import annotations

from broker.errors import RequestError
from broker.quotas.alteration import quotas_of_kind
from broker.quotas.client_quotas import quota_values
from broker.quotas.description import check_filter, matches
from broker.quotas.entities import entity_of
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)


class DescribeClientQuotasHandler(Handler[DescribeClientQuotasRequest, DescribeClientQuotasResponse]):
    """Reads the configs of entities."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(
        self, request: DescribeClientQuotasRequest, context: RequestContext
    ) -> DescribeClientQuotasResponse:
        """See the module docstring."""
        try:
            check_filter(request.components)
        except RequestError as error:
            return _failed(error.code, str(error) or None)
        entries: list[EntryData] = []
        for path, config in (await self._services.configs.entities.read_all()).items():
            entity = entity_of(path)
            quotas = quota_values(path, config, quotas_of_kind(path))
            if quotas and matches(entity, request.components, strict=request.strict):
                entries.append(
                    EntryData(
                        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
                        values=[ValueData(key=name, value=quota) for name, quota in quotas.items()],
                    )
                )
        return DescribeClientQuotasResponse(error_message="", entries=entries)

    def failed(self, request: DescribeClientQuotasRequest, code: ErrorCode) -> DescribeClientQuotasResponse:
        """Return the answer with the error."""
        return _failed(code, code.name)


def _failed(code: ErrorCode, message: str | None) -> DescribeClientQuotasResponse:
    return DescribeClientQuotasResponse(error_code=code, error_message=message, entries=None)
