"""The counters of a broker for its own console."""

import json

from broker.console.statistics import statistics, traffic
from broker.metrics import LATENCY_BUCKETS_S
from client.admin.admin import Admin
from client.producer.producer import Producer
from support.console import ask, console_broker


async def test_counters_of_requests_and_bytes(tmp_path):
    async with console_broker(tmp_path, {"auto.create.topics.enable": "true"}) as broker:
        before = traffic(broker.services)
        async with (
            Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
            Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
        ):
            await admin.create_topic("orders")
            await producer.send("orders", b"first")
            after = traffic(broker.services)
            assert after.requests > before.requests
            assert after.produced_bytes > before.produced_bytes == 0
            found = statistics(broker.services, broker.acceptors)
        assert sum(found.connections.values()) >= 1
        produce = next(one for one in found.apis if one.api == "Produce")
        assert (produce.requests, produce.errors) == (1, 0)
        assert produce.request_bytes > 0 < produce.mean_seconds
        assert produce.p99_seconds is None or produce.p99_seconds in LATENCY_BUCKETS_S


async def test_the_console_of_a_broker_shows_its_own_traffic(tmp_path):
    async with console_broker(tmp_path, {}) as broker:

        async def points():
            found = json.loads((await ask(broker, "/api/v1/overview")).text)
            assert found["traffic"]["broker_id"] == broker.services.broker_id
            return found["traffic"]["points"]

        assert await points() == []  # the first reading is at the first look, the next one ten seconds later
