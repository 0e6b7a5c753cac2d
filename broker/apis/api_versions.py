"""ApiVersions: the APIs and versions that this broker supports, and its features (KIP-511, KIP-584).

A request of an unknown version is answered in version 0 with UNSUPPORTED_VERSION and only the range of this API, so
that the client can retry. The APIs of consumer groups (KIP-848) are left out while this broker does not offer them,
see `GroupCoordinator.offers_consumer_protocol`. A client software name or version that breaks KIP-511's rule gets
INVALID_REQUEST.
"""

from __future__ import annotations

import re

from broker.coordinator.group_coordinator import CONSUMER_PROTOCOL_APIS
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
FIRST_VERSION_WITH_SOFTWARE = 3


class ApiVersionsHandler(Handler[ApiVersionsRequest, ApiVersionsResponse]):
    """Answers from the API table."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(self, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
        """See the module docstring."""
        if context.api_version >= FIRST_VERSION_WITH_SOFTWARE:
            name, version = request.client_software_name, request.client_software_version
            if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
                return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        return ApiVersionsResponse(api_keys=self._rows(), finalized_features_epoch=0)

    def _rows(self) -> list[ApiVersion]:
        hidden = () if self._services.coordination.groups.offers_consumer_protocol else CONSUMER_PROTOCOL_APIS
        return [
            ApiVersion(api_key=key, min_version=low, max_version=high)
            for key, low, high in self._services.served_apis
            if key not in hidden
        ]

    def failed(self, request: ApiVersionsRequest, code: ErrorCode) -> ApiVersionsResponse:
        """Return the answer with the error; for an unsupported version with the version range of this API."""
        rows = self._rows() if code == ErrorCode.UNSUPPORTED_VERSION else []
        return ApiVersionsResponse(
            error_code=code, api_keys=[row for row in rows if row.api_key == ApiKey.API_VERSIONS]
        )
