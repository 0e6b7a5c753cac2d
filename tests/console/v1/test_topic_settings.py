"""Settings of topics with their documentation."""

import pytest

from client.admin.admin import Admin


@pytest.fixture(scope="module")
def broker_settings():
    return {"log.retention.ms": "18000000"}


async def test_value_source_and_the_value_after_a_reset(rest, broker):
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.create_topic("tuned", configs={"retention.ms": "1000"})
    found = {one["name"]: one for one in (await rest.get("/api/v1/topics/tuned/settings"))["settings"]}
    retention = found["retention.ms"]
    assert (retention["value"], retention["source"], retention["inherited"]) == (
        "1000",
        "DYNAMIC_TOPIC_CONFIG",
        "18000000",
    )
    assert retention["documentation"] == retention["rule"]["documentation"]
    assert retention["rule"]["low"] == -1
    policy = found["cleanup.policy"]
    assert (policy["value"], policy["inherited"], policy["rule"]["choices"]) == (
        "delete",
        "delete",
        ["compact", "delete"],
    )
    assert (await rest.ask("GET", "/api/v1/topics/missing/settings")).status == 404


async def test_all_settings_that_a_topic_may_have(rest):
    found = {one["name"]: one for one in (await rest.get("/api/v1/topic-settings"))["settings"]}
    assert found["segment.bytes"]["default"] == "1073741824"
    assert all(one["documentation"] for one in found.values())
