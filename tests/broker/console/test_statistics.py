"""The counters of a broker for its own console."""

from broker.console.statistics import statistics, traffic
from broker.metrics import LATENCY_BUCKETS_S
from client.admin.admin import Admin
from client.producer.producer import Producer
from support.console import console_broker


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
