"""Settings of topics, of a broker and of all brokers over the REST API."""

import pytest

from support.polling import until
from support.rest import rest_api

SIZE = "max.message.bytes"
THREADS = "log.cleaner.threads"


@pytest.fixture
async def rest(broker):
    async with rest_api(broker.bootstrap_servers) as api:
        await api.ask("POST", "topics", {"topic_name": "orders"})
        yield api


async def until_value(rest, path, value, source):
    async def has_it():
        answer = await rest.ask("GET", path)
        return answer.status == 200 and (answer.body["value"], answer.body["source"]) == (value, source) and answer.body

    return await until(has_it, f"{path} is {value}")


async def test_a_setting_of_a_topic_is_set_and_reset(rest):
    path = f"topics/orders/configs/{SIZE}"
    default = await until_value(rest, path, "1048588", "DEFAULT_CONFIG")
    assert default["is_default"]
    assert [one["name"] for one in default["synonyms"]] == ["message.max.bytes"]
    assert (await rest.ask("PUT", path, {"value": "2000"})).status == 204
    own = await until_value(rest, path, "2000", "DYNAMIC_TOPIC_CONFIG")
    assert not own["is_default"]
    listed = (await rest.get("topics/orders/configs"))["data"]
    assert own in listed
    assert own in (await rest.get("topics/-/configs"))["data"]
    assert (await rest.ask("DELETE", path)).status == 204
    await until_value(rest, path, "1048588", "DEFAULT_CONFIG")


async def test_a_batch_is_all_or_nothing(rest):
    wrong = {"data": [{"name": "retention.ms", "value": "5"}, {"name": SIZE, "value": "many"}]}
    answer = await rest.ask("POST", "topics/orders/configs:alter", wrong)
    assert (answer.status, answer.body["error_code"]) == (400, 40002)
    assert SIZE in answer.body["message"]
    right = {"data": [{"name": "retention.ms", "value": "5"}, {"name": SIZE, "operation": "delete"}]}
    assert (await rest.ask("POST", "topics/orders/configs:alter", right | {"validate_only": True})).status == 204
    assert (await rest.get("topics/orders/configs/retention.ms"))["is_default"]
    assert (await rest.ask("POST", "topics/orders/configs:alter", right)).status == 204
    await until_value(rest, "topics/orders/configs/retention.ms", "5", "DYNAMIC_TOPIC_CONFIG")
    more = {"data": [{"name": "cleanup.policy", "value": "compact", "operation": "APPEND"}]}
    assert (await rest.ask("POST", "topics/orders/configs:alter", more)).status == 204
    await until_value(rest, "topics/orders/configs/cleanup.policy", "delete,compact", "DYNAMIC_TOPIC_CONFIG")


async def test_settings_of_one_and_of_all_brokers(rest):
    assert (await rest.ask("GET", f"broker-configs/{THREADS}")).status == 404
    body = {"data": [{"name": THREADS, "value": "2"}]}
    assert (await rest.ask("POST", "broker-configs:alter", body)).status == 204
    found = await until_value(rest, f"broker-configs/{THREADS}", "2", "DYNAMIC_DEFAULT_BROKER_CONFIG")
    assert found["config_type"] == "INT"
    assert found in (await rest.get("broker-configs"))["data"]
    await until_value(rest, f"brokers/0/configs/{THREADS}", "2", "DYNAMIC_DEFAULT_BROKER_CONFIG")
    assert (await rest.ask("PUT", f"brokers/0/configs/{THREADS}", {"value": "3"})).status == 204
    own = await until_value(rest, f"brokers/0/configs/{THREADS}", "3", "DYNAMIC_BROKER_CONFIG")
    assert own["broker_id"] == 0
    assert own in (await rest.get("brokers/-/configs"))["data"]
    assert (await rest.ask("DELETE", f"brokers/0/configs/{THREADS}")).status == 204
    assert (await rest.ask("DELETE", f"broker-configs/{THREADS}")).status == 204
    await until_value(rest, f"brokers/0/configs/{THREADS}", "1", "DEFAULT_CONFIG")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("GET", "topics/orders/configs/no.such", None, 404, "no.such"),
        ("GET", "topics/unknown/configs", None, 404, "unknown"),
        ("PUT", f"topics/orders/configs/{SIZE}", {"value": None}, 400, "needs a value"),
        ("PUT", f"topics/orders/configs/{SIZE}", {}, 400, "needs a value"),
        ("PUT", "brokers/0/configs/broker.id", {"value": "9"}, 400, "broker.id"),
        ("PUT", f"brokers/9/configs/{THREADS}", {"value": "9"}, 404, "no live broker 9"),
        ("POST", "topics/orders/configs:alter", {"data": []}, 400, "data"),
        ("POST", "topics/orders/configs:alter", {"data": [{"name": SIZE, "operation": "ADD"}]}, 400, "operation"),
    ],
)
async def test_errors(rest, method, path, body, status, text):
    answer = await rest.ask(method, path, body)
    assert answer.status == status, answer
    assert text in answer.body["message"]
