"""The REST API for a server of the Kafka protocol that is neither ours nor Apache Kafka: librdkafka's mock cluster."""

from client.producer.producer import Producer
from support.mock_cluster import MockCluster
from support.rest import rest_api


async def test_records_and_topics_of_a_mock_cluster():
    cluster = MockCluster()
    async with Producer(bootstrap_servers=cluster.bootstrap) as producer:
        await producer.send("orders", b"first", partition=0)  # makes the topic
    async with rest_api(cluster.bootstrap) as rest:
        assert len((await rest.get("brokers"))["data"]) == 3
        topic = await rest.get("topics/orders")
        assert topic["partitions_count"] == 4
        assert topic in (await rest.get("topics"))["data"]
        body = {"partition_id": 0, "value": {"type": "STRING", "data": "second"}}
        answer = await rest.ask("POST", "topics/orders/records", body)
        assert (answer.status, answer.body["offset"]) == (200, 1)
        offsets = await rest.get("topics/orders/partitions/0/offset")
        assert (offsets["earliest_offset"], offsets["latest_offset"]) == (0, 2)
        missing = await rest.ask("GET", "acls")
        assert (missing.status, missing.body["error_code"]) == (400, 40002)
