"""The part of the admin client for API versions (ApiVersions, KIP-35): which requests each broker serves."""

from collections.abc import Iterable

from client.admin.base import AdminBase
from client.admin.types import ServedApi
from client.errors import UnsupportedApiError
from client.wire.connection import Connection
from protocol.api_keys import api_name, request_class
from protocol.errors import UnsupportedVersionError


class ApiVersionAdmin(AdminBase):
    """The ranges that connections negotiate."""

    async def describe_api_versions(self, brokers: Iterable[int] | None = None) -> dict[int, list[ServedApi]]:
        """The APIs of these brokers, or of all brokers, by broker id; sorted by API key.

        Raises BrokerUnknownError for an id that is not in the cluster.
        """
        await self._cluster.refresh([])
        wanted = sorted(self._cluster.metadata.brokers) if brokers is None else list(brokers)
        return {broker_id: _served(await self._cluster.connection(broker_id)) for broker_id in wanted}


def _served(connection: Connection) -> list[ServedApi]:
    return [
        ServedApi(api_key, api_name(api_key), lowest, highest, _used(connection, api_key))
        for api_key, (lowest, highest) in sorted(connection.api_versions.items())
    ]


def _used(connection: Connection, api_key: int) -> int | None:
    try:
        return connection.common_version(request_class(api_key))
    except (UnsupportedApiError, UnsupportedVersionError):
        return None
