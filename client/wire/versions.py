"""Which version of each API a broker and this client have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from client.errors import ApiNotServedError, UnsupportedApiError, error_for
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.message import Message
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from client.wire.connection import Connection

SOFTWARE_NAME = "ottla"
SOFTWARE_VERSION = "0.1.0"

ApiVersions: TypeAlias = Mapping[int, tuple[int, int]]
"""The lowest and the highest version that a broker serves, by API key."""


async def request_versions(connection: Connection) -> ApiVersions:
    """Return the versions that the broker serves.

    The request has our newest version. A broker that does not know it answers in version 0 with the versions that it
    knows (KIP-511), and the request is repeated in the newest common version. Raises UnsupportedApiError if there is no
    common version, and what `Connection.request` raises.
    """
    version = ApiVersionsRequest.MAX_VERSION
    for _ in range(2):
        request = ApiVersionsRequest()
        if version >= 3:
            request.client_software_name = SOFTWARE_NAME
            request.client_software_version = SOFTWARE_VERSION
        response = await connection.call(request, ApiVersionsResponse, version)
        offered = {int(api.api_key): (int(api.min_version), int(api.max_version)) for api in response.api_keys}
        if response.error_code == ErrorCode.NONE:
            return offered
        if response.error_code != ErrorCode.UNSUPPORTED_VERSION:
            raise error_for(response.error_code, context=f"ApiVersions to {_address(connection)}")
        version = min(version - 1, offered.get(int(ApiKey.API_VERSIONS), (0, 0))[1])
    raise UnsupportedApiError(f"{_address(connection)} and this client have no common version of ApiVersions")


def highest_common(connection: Connection, message: type[Message], max_version: int | None) -> int:
    """Return the highest version of a request that the broker and this client have, at most `max_version`.

    Raises UnsupportedApiError if there is none (ApiNotServedError if the broker has none), or if the broker was not
    asked.
    """
    served = connection.api_versions.get(message.API_KEY)
    if served is None:
        if not connection.api_versions:
            raise UnsupportedApiError(f"versions of {_address(connection)} are unknown: call negotiate() first")
        raise ApiNotServedError(_address(connection), ApiKey(message.API_KEY).name)
    highest = min(served[1], message.MAX_VERSION)
    if max_version is not None:
        highest = min(highest, max_version)
    if highest < max(served[0], message.MIN_VERSION):
        raise UnsupportedApiError(
            f"{_address(connection)} serves {ApiKey(message.API_KEY).name} in versions {served[0]} to {served[1]}, "
            f"this client needs {message.MIN_VERSION} to {min(message.MAX_VERSION, highest)}"
        )
    return highest


def _address(connection: Connection) -> str:
    return f"{connection.host}:{connection.port}"
