"""The admin client's part about API versions, against our broker and a broker that serves other versions."""

import pytest

from client.admin.admin import Admin
from client.admin.types import ServedApi
from client.errors import BrokerUnknownError
from client.wire.connection import Connection
from protocol.api_keys import ApiKey


async def test_a_broker_serves_apis_in_ranges_of_versions(broker):
    async with Admin(bootstrap_servers=broker.bootstrap) as admin:
        found = await admin.describe_api_versions()
        assert list(found) == [0]
        assert [api.api_key for api in found[0]] == sorted(api.api_key for api in found[0])
        by_key = {api.api_key: api for api in found[0]}
        assert by_key[ApiKey.METADATA].name == "Metadata"
        assert by_key[ApiKey.METADATA].used == by_key[ApiKey.METADATA].highest
        with pytest.raises(BrokerUnknownError, match="broker 7"):
            await admin.describe_api_versions([7])


async def test_the_used_version_is_the_highest_common_one(broker, monkeypatch):
    negotiate = Connection.negotiate

    async def negotiate_with_another_broker(self):
        await negotiate(self)
        self.api_versions |= {int(ApiKey.LIST_GROUPS): (0, 1), int(ApiKey.HEARTBEAT): (90, 99), 75: (0, 0)}

    monkeypatch.setattr(Connection, "negotiate", negotiate_with_another_broker)
    async with Admin(bootstrap_servers=broker.bootstrap) as admin:
        found = {api.api_key: api for api in (await admin.describe_api_versions([0]))[0]}
    assert found[ApiKey.LIST_GROUPS] == ServedApi(16, "ListGroups", 0, 1, 1)
    assert found[ApiKey.HEARTBEAT] == ServedApi(12, "Heartbeat", 90, 99, None)
    assert found[75] == ServedApi(75, "unknown API 75", 0, 0, None)
