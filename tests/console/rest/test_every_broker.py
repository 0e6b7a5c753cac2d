"""One broker of three that does not answer: no request waits for it for long, and answers name it."""

import asyncio
import re

import pytest

from ottla import testing
from support.rest import rest_api

MEMBER = {"zookeeper.session.timeout.ms": "300000"}
"""A broker that is paused stays a member of the cluster."""
SAID = re.compile(r"Broker \d did not answer within 3 s")  # on a slow machine, others may be late, too


@pytest.fixture(scope="module")
def cluster():
    with testing.cluster(3, settings=MEMBER) as running:
        yield running


async def test_a_broker_that_does_not_answer_is_named_and_the_others_are_shown(cluster):
    async with rest_api(cluster.bootstrap_servers) as rest:
        assert (await rest.ask("POST", "topics", {"topic_name": "t", "partitions_count": 3})).status == 201
        whole = [len((await rest.get(path))["data"]) for path in ("brokers/-/configs", "topics")]
        assert whole[0] % 3 == 0
        cluster.pause_broker(3)
        try:
            configs, groups, topics, overview, brokers = await asyncio.gather(
                rest.ask("GET", "brokers/-/configs"),
                rest.ask("GET", "consumer-groups"),
                rest.ask("GET", "topics"),
                rest.ask("GET", "/api/v1/overview"),
                rest.ask("GET", "brokers"),
            )
        finally:
            cluster.resume_broker(3)
        for refused in (configs, groups):
            assert (refused.status, refused.body["error_code"]) == (504, 50003)
            assert SAID.search(refused.body["message"])
        assert len(topics.body["data"]) == whole[1]
        assert len(brokers.body["data"]) == 3
        assert any(SAID.search(one) for one in overview.body["problems"])
        assert len((await rest.get("brokers/-/configs"))["data"]) == whole[0]
