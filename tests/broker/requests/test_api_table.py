"""The APIs of a broker are a parameter: it announces and serves these and no others."""

from __future__ import annotations

import pytest

from broker.broker import Broker
from broker.requests.api_table import API_TABLE
from broker.settings.config import BrokerConfig
from protocol.api_keys import ApiKey
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.metadata import MetadataRequest
from support.broker import settings
from support.wire import wire_client


async def test_a_broker_serves_the_apis_that_it_is_given(tmp_path):
    apis = [
        api._replace(max_version=4) if api.key is ApiKey.METADATA else api
        for api in API_TABLE
        if api.key is not ApiKey.LIST_GROUPS
    ]
    async with Broker(BrokerConfig.load(None, settings(tmp_path / "data")), apis=apis) as broker:
        async with wire_client(broker.bootstrap_servers) as client:
            announced = (await client.call(ApiVersionsRequest(), 2)).api_keys
            assert [(row.api_key, row.max_version) for row in announced] == [(row.key, row.max_version) for row in apis]
            assert (await client.call(MetadataRequest(topics=[]), 4)).controller_id == 0
        for refused, version in ((MetadataRequest(topics=[]), 5), (ListGroupsRequest(), 0)):
            async with wire_client(broker.bootstrap_servers) as client:
                client.send(refused, version)
                assert await client.is_closed(), refused


def test_the_table_has_one_row_for_each_api():
    assert len({api.key for api in API_TABLE}) == len(API_TABLE)
    assert all(0 <= api.min_version <= api.max_version for api in API_TABLE)


@pytest.mark.parametrize("api", API_TABLE, ids=lambda api: api.name)
def test_requests_of_every_served_version_exist(api):
    assert api.min_version >= api.request.MIN_VERSION
    assert api.max_version <= api.request.MAX_VERSION
