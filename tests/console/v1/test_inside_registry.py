"""The registry tree in a broker's own console."""

import pytest
import pytest_asyncio

from console.rest import event_stream
from ottla import testing
from support.console import console_broker
from support.own_console import listening, own_console
from support.polling import until
from support.rest import rest_api

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(tmp_path_factory):
    async with console_broker(tmp_path_factory.mktemp("inside"), {"broker.id": "3"}) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rest(broker):
    async with own_console(broker) as api:
        yield api


async def test_a_node_is_answered(rest):
    node = await rest.get("/api/v1/inside/registry?path=/brokers/ids/3")
    assert node["owner_broker"] == 3
    assert '"listener_security_protocol_map"' in node["content"]
    root = await rest.get("/api/v1/inside/registry?path=/&contains=control")
    assert [one["name"] for one in root["children"]] == ["controller", "controller_epoch"]


async def test_refusals(rest):
    assert (await rest.ask("GET", "/api/v1/inside/registry?path=/none")).status == 404
    assert (await rest.ask("GET", "/api/v1/inside/registry?path=x")).status == 400
    assert (await rest.ask("GET", "/api/v1/inside/registry")).status == 400
    many = "&".join(f"path=/{number}" for number in range(51))
    assert (await rest.ask("GET", f"/api/v1/inside/registry/events?{many}")).status == 400


async def test_changes_are_told_live_until_the_reader_leaves(broker, rest):
    registry = broker.services.registry_access.registry
    await registry.create("/config/topics/live", b"{}")
    path = "/api/v1/inside/registry/events?path=/config/topics/live&path=/config/topics"
    async with listening(rest, path) as events:
        assert await events.next("changed") == {"paths": []}
        await registry.set("/config/topics/live", b'{"version":1,"config":{}}')
        assert await events.next("changed") == {"paths": ["/config/topics/live"]}
        await registry.delete("/config/topics/live")
        assert "/config/topics" in (await events.next("changed"))["paths"]

    def is_quiet():
        return not any(one == "/config/topics/live" for one in registry._watches.data_paths())

    await until(is_quiet, "the watches are removed")


async def test_streams_are_limited(broker, rest, monkeypatch):
    monkeypatch.setattr(event_stream, "MAX_STREAMS", 1)
    path = "/api/v1/inside/registry/events?path=/controller"
    async with listening(rest, path) as events:
        await events.next("changed")
        refused = await rest.ask("GET", path)
        assert refused.status == 503
        assert "already get live data" in refused.body["message"]

    async def is_free():
        answer = await rest.http.get(rest.full(path))
        answer.close()
        return answer.status == 200

    await until(is_free, "the stream of the reader that left is over")


async def test_a_console_of_another_cluster_says_where_it_is():
    with testing.broker() as broker:
        async with rest_api(broker.bootstrap_servers) as api:
            answer = await api.ask("GET", "/api/v1/inside/registry?path=/")
            assert (answer.status, "ottla.console.listener" in answer.body["message"]) == (404, True)
