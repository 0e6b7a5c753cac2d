"""What the sender of a request may not see is not there, and what it may not do is refused."""

import aiohttp
import pytest
from aiohttp import web

from client.admin.admin import Admin
from client.consumer.group_metadata import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from console.application import rest_application
from console.clients import Clients
from console.services import ConsoleServices
from console.v3.table import OPERATIONS
from ottla import testing
from security.acls.types import Operation, ResourceType
from support.polling import until
from support.rest import Rest, served

SEEN = {(ResourceType.TOPIC, "mine"), (ResourceType.GROUP, "ours"), (ResourceType.CLUSTER, "kafka-cluster")}


class Limited:
    """Sees some resources, and may only write to the topic "mine"."""

    user = None
    may_change = False

    def sees(self, operation, resource_type, name):
        return operation is not Operation.DESCRIBE_CONFIGS and (resource_type, name) in SEEN

    def may(self, operation, resource_type, name):
        return (operation, resource_type, name) == (Operation.WRITE, ResourceType.TOPIC, "mine")


async def commit(admin, group, topic):
    partition = TopicPartition(topic, 0)

    async def is_committed():
        return (await admin.alter_group_offsets(group, {partition: OffsetAndMetadata(0)}))[partition] is None

    await until(is_committed, f"{group} has an offset of {topic}")


@pytest.fixture
async def rest():
    with testing.broker() as broker:
        servers = broker.bootstrap_servers
        async with (
            Clients(lambda: Admin(bootstrap_servers=servers), lambda: Producer(bootstrap_servers=servers)) as clients,
            aiohttp.ClientSession() as http,
        ):
            admin = await clients.admin()
            for name in ("mine", "theirs"):
                await admin.create_topic(name)
            for group, name in (("ours", "mine"), ("ours", "theirs"), ("hidden", "mine")):
                await commit(admin, group, name)
            application = web.Application()
            application.add_subapp(
                "/v3", rest_application(OPERATIONS, ConsoleServices(clients), lambda request: Limited())
            )
            async with served(application) as url:
                yield Rest(http, url, await clients.cluster_id())


async def test_lists_have_only_what_the_sender_sees(rest):
    found = {
        "topics": "topic_name",
        "brokers/0/partition-replicas": "topic_name",
        "consumer-groups": "consumer_group_id",
        "consumer-groups/ours/lags": "topic_name",
        "topics/-/configs": "topic_name",
    }
    names = {path: {one[name] for one in (await rest.get(path))["data"]} for path, name in found.items()}
    assert names.pop("consumer-groups") == {"ours"}
    assert names.pop("topics/-/configs") == set()
    assert set(map(frozenset, names.values())) == {frozenset({"mine"})}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "topics/theirs", None),
        ("GET", "topics/mine/configs", None),
        ("GET", "brokers/0/configs", None),
        ("GET", "consumer-groups/hidden", None),
        ("POST", "topics", {"topic_name": "new"}),
        ("DELETE", "topics/mine", None),
        ("PUT", "topics/mine/configs/retention.ms", {"value": "1"}),
        ("POST", "topics/theirs/records", {}),
    ],
)
async def test_what_is_refused(rest, method, path, body):
    answer = await rest.ask(method, path, body)
    assert (answer.status, answer.body["error_code"]) == (403, 40301), answer


async def test_what_is_allowed(rest):
    assert (await rest.ask("POST", "topics/mine/records", {"value": {"type": "STRING", "data": "a"}})).status == 200
