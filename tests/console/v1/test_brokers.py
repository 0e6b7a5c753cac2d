"""Brokers over the REST API: all at a glance, settings, log directories, APIs, statistics, log levels."""

import json

import pytest

from client.producer.producer import Producer
from ottla import testing
from support.console import ask, console_broker
from support.mock_cluster import MockCluster
from support.rest import rest_api

PATH = "/api/v1/brokers"


@pytest.fixture(scope="module")
def servers():
    with testing.broker() as broker:
        yield broker.bootstrap_servers


async def test_all_at_a_glance(servers):
    async with rest_api(servers) as rest:
        assert (await rest.ask("POST", "topics", {"topic_name": "orders", "partitions_count": 2})).status == 201
        found = await rest.get(PATH)
        (one,) = found["brokers"]
        assert found["problems"] == []
        assert f"{one['host']}:{one['port']}" == servers
        assert (one["is_alive"], one["is_controller"], one["out_of_sync"]) == (True, True, 0)
        assert (one["leaders"], one["preferred_leaders"], one["leads_preferred"], one["replicas"]) == (2, 2, 2, 2)
        assert (one["log_dirs"], one["failed_log_dirs"]) == (1, 0)
        assert one["version"].startswith("3.9")


async def test_settings_have_documentation_and_can_be_changed(servers):
    async with rest_api(servers) as rest:
        ((broker_id,),) = [[one["broker_id"] for one in (await rest.get(PATH))["brokers"]]]

        async def setting():
            found = await rest.get(f"{PATH}/{broker_id}/settings")
            return next(one for one in found["settings"] if one["name"] == "log.retention.ms")

        before = await setting()
        assert before["documentation"]
        assert (before["type"], before["is_read_only"]) == ("LONG", False)
        body = {"data": [{"name": "log.retention.ms", "value": "7200000"}]}
        assert (await rest.ask("POST", f"brokers/{broker_id}/configs:alter", body)).status == 204
        changed = await setting()
        assert (changed["value"], changed["source"]) == ("7200000", "DYNAMIC_BROKER_CONFIG")


async def test_log_directories_apis_and_what_is_not_there(servers):
    async with rest_api(servers) as rest:
        ((broker_id,),) = [[one["broker_id"] for one in (await rest.get(PATH))["brokers"]]]
        (log_dir,) = (await rest.get(f"{PATH}/{broker_id}/log-dirs"))["log_dirs"]
        assert log_dir["error"] is None
        assert log_dir["total_bytes"] > log_dir["usable_bytes"]
        apis = (await rest.get(f"{PATH}/{broker_id}/apis"))["apis"]
        assert {"api_key": 0, "name": "Produce", "lowest": 0, "highest": 11} in apis
        statistics = await rest.get(f"{PATH}/{broker_id}/statistics")
        assert statistics["statistics"] is None
        assert "Ottla broker" in statistics["reason"]
        assert (await rest.ask("GET", f"{PATH}/99/settings")).status == 404


async def test_log_levels_are_set_and_reset(servers):
    async with rest_api(servers) as rest:
        ((broker_id,),) = [[one["broker_id"] for one in (await rest.get(PATH))["brokers"]]]
        path = f"{PATH}/{broker_id}/log-levels"
        before = (await rest.get(path))["levels"]
        logger = next(name for name in before if name.endswith("apis.stop_replica"))
        for level, seen in (("DEBUG", "DEBUG"), (None, before[logger])):
            assert (await rest.ask("POST", path, {"data": [{"logger": logger, "level": level}]})).status == 204
            assert (await rest.get(path))["levels"][logger] == seen
        wrong = await rest.ask("POST", path, {"data": [{"logger": logger, "level": "LOUD"}]})
        assert wrong.status == 400


async def test_the_statistics_of_the_broker_that_serves_the_console(tmp_path):
    async with console_broker(tmp_path, {}) as broker:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.flush()
        found = json.loads((await ask(broker, f"{PATH}/{broker.services.broker_id}/statistics")).text)
        assert found["reason"] is None
        apis = {one["api"]: one for one in found["statistics"]["apis"]}
        assert apis["Metadata"]["requests"] >= 1
        assert sum(found["statistics"]["connections"].values()) >= 1


async def test_a_mock_cluster():
    cluster = MockCluster()
    async with rest_api(cluster.bootstrap) as rest:
        found = await rest.get(PATH)
        assert [one["is_alive"] for one in found["brokers"]] == [True] * 3
        assert found["problems"]  # it does not describe log directories
        levels = await rest.get(f"{PATH}/{found['brokers'][0]['broker_id']}/log-levels")
        assert levels["levels"] is None
        assert "no loggers" in levels["reason"]
