"""What users of the console may read and do: the authorizer decides; and what is open to everybody."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from broker.authorization import audit
from broker.authorization.access import Access
from broker.authorization.authorizer import Authorizer
from broker.broker import Broker
from broker.console.rights import Rights, Visitor
from broker.settings.checks import ACL_AUTHORIZER
from client.admin.admin import Admin
from client.admin.quotas import QuotaEntity
from client.consumer.group_metadata import OffsetAndMetadata
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from security.acls.types import Operation, ResourceType
from security.principal import ANONYMOUS, Principal
from support.authorization import allow, put_acls
from support.console import Answer, ask, basic, console_broker, password_file

pytestmark = pytest.mark.asyncio(loop_scope="module")

USERS = ("admin", "reader", "keeper", "narrow")
AUTHORIZER = {"authorizer.class.name": ACL_AUTHORIZER, "super.users": "User:ANONYMOUS;User:admin"}
ACLS = [
    allow("User:reader", "Describe", "Cluster"),
    allow("User:reader", "Describe", "Topic", "seen"),
    allow("User:reader", "Read", "Group", "seen-group"),
    allow("User:keeper", "Alter", "Cluster"),
    allow("User:keeper", "DescribeConfigs", "Cluster"),
    allow("User:narrow", "Describe", "Topic", "seen"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("console")
    values = AUTHORIZER | {"ottla.console.authentication": "password-file"}
    values |= password_file(folder, **{name: f"{name}-secret" for name in USERS})
    async with console_broker(folder, values) as running:
        servers = running.bootstrap_servers
        async with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
            for topic in ("seen", "hidden"):
                await admin.create_topic(topic, 1)
                await producer.send(topic, b"v")
            for group in ("seen-group", "hidden-group"):
                offsets = {TopicPartition(topic, 0): OffsetAndMetadata(1) for topic in ("seen", "hidden")}
                await admin.alter_group_offsets(group, offsets)
        put_acls(running, ACLS)
        yield running


async def read(broker: Broker, user: str, path: str = "/api/cluster") -> Answer:
    return await ask(broker, path, auth=basic(user, f"{user}-secret"))


async def test_topics_and_groups_are_filtered(broker: Broker) -> None:
    found = json.loads((await read(broker, "reader")).text)
    assert [topic["name"] for topic in found["topics"]] == ["seen"]
    (group,) = found["groups"]
    assert group["group_id"] == "seen-group"
    assert [one["topic"] for one in group["offsets"]] == ["seen"]
    everything = json.loads((await read(broker, "admin")).text)
    assert {"seen", "hidden"} < {topic["name"] for topic in everything["topics"]}
    assert {group["group_id"] for group in everything["groups"]} == {"seen-group", "hidden-group"}


async def test_metrics_are_filtered(broker: Broker) -> None:
    text = (await read(broker, "reader", "/metrics")).text
    assert 'topic="seen"' in text
    assert "hidden" not in text
    assert "ottla_partitions" in text
    text = (await read(broker, "admin", "/metrics")).text
    assert 'group="hidden-group"' in text
    assert 'topic="hidden"' in text


async def test_quotas_of_users_need_describe_configs(broker: Broker) -> None:
    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.alter_client_quotas({QuotaEntity(user="ANONYMOUS"): {"producer_byte_rate": 1e9}})
    async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        await producer.send("seen", b"v")
    assert "ottla_quota_limit{" in (await read(broker, "admin", "/metrics")).text
    assert "ottla_quota_limit{" in (await read(broker, "keeper", "/metrics")).text
    assert "ottla_quota_limit{" not in (await read(broker, "reader", "/metrics")).text


@pytest.mark.parametrize("path", ["/", "/metrics", "/api/cluster", "/api/v1/session", "/nothing"])
async def test_a_user_that_may_not_describe_the_cluster_reads_nothing(
    broker: Broker, caplog: pytest.LogCaptureFixture, path: str
) -> None:
    caplog.set_level(logging.INFO, audit.logger.name)
    answer = await read(broker, "narrow", path)
    said = "User:narrow may not describe the cluster."
    assert answer[:2] == (
        403,
        json.dumps({"error_code": 403, "message": said}) if path.startswith("/api/") else f"{said}\n",
    )
    (line,) = [one.getMessage() for one in caplog.records if one.name == audit.logger.name]
    assert line == (
        'denied: principal="User:narrow" host="127.0.0.1" operation=Describe resource=Cluster:"kafka-cluster"'
        f" api={'/{unknown}' if path == '/nothing' else path} client_id=null listener=console"
    )


async def session(broker: Broker, **options: Any) -> tuple[str | None, bool]:
    """Who looks, and whether they may change anything."""
    found = json.loads((await ask(broker, "/api/v1/session", **options)).text)
    return found["user"], found["may_change"]


@pytest.mark.parametrize(("user", "may"), [("admin", True), ("keeper", True), ("reader", False)])
async def test_changing_needs_another_right_than_reading(broker: Broker, user: str, may: bool) -> None:
    assert await session(broker, auth=basic(user, f"{user}-secret")) == (f"User:{user}", may)


async def test_changed_acls_count_at_once(broker: Broker) -> None:
    put_acls(broker, [])
    assert (await read(broker, "reader")).status == 403
    put_acls(broker, ACLS)
    assert (await read(broker, "reader")).status == 200


# -- open to everybody -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        pytest.param({}, {"/", "/metrics", "/api/cluster"}, id="loopback without settings"),
        pytest.param({"ottla.console.open": ""}, set(), id="nothing"),
        pytest.param({"ottla.console.open": "metrics"}, {"/metrics"}, id="metrics"),
        pytest.param({"ottla.console.open": "read"}, {"/", "/metrics", "/api/cluster"}, id="read"),
        pytest.param({"ottla.console.authentication": "scram"}, set(), id="with logins"),
        pytest.param(
            {"ottla.console.authentication": "scram", "ottla.console.open": "metrics"},
            {"/metrics"},
            id="logins, metrics",
        ),
    ],
)
async def test_what_needs_no_login(tmp_path: Path, values: dict[str, str], shown: set[str]) -> None:
    async with console_broker(tmp_path, AUTHORIZER | {"super.users": "User:ANONYMOUS"} | values) as broker:
        found = {path for path in ("/", "/metrics", "/api/cluster") if (await ask(broker, path)).status == 200}
        assert found == shown
        assert (await ask(broker, "/healthz")).status == 200
        refused = 401 if "ottla.console.authentication" in values else 403
        assert {(await ask(broker, path)).status for path in ("/", "/metrics") if path not in shown} <= {refused}


async def test_everybody_may_do_on_loopback_what_a_plain_listener_allows_anyway(tmp_path: Path) -> None:
    async with console_broker(tmp_path, {}) as broker:
        assert await session(broker) == (None, True)


async def test_everybody_reads_and_changes_nothing_where_the_listeners_need_a_login(tmp_path: Path) -> None:
    values = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            "org.apache.kafka.common.security.plain.PlainLoginModule required"
            ' username="broker" password="secret" user_broker="secret";'
        ),
    }
    async with console_broker(tmp_path, values) as broker:
        assert await session(broker) == (None, False)


# -- the rights of one request -----------------------------------------------------------------------------------------


class OnlyAlice(Authorizer):
    """Allows Alice to delete topics."""

    def allows(
        self, principal: Principal, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        return (principal.name, operation, name) == ("alice", Operation.DELETE, "t")


@pytest.mark.parametrize(
    ("user", "topic", "has_authorizer", "acts", "may"),
    [
        ("alice", "t", True, True, True),
        ("alice", "u", True, True, False),
        ("bob", "t", True, True, False),
        ("bob", "t", False, True, True),
        ("alice", "t", True, False, False),
        ("bob", "t", False, False, False),
    ],
)
async def test_an_action_needs_its_operation(
    user: str, topic: str, has_authorizer: bool, acts: bool, may: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, audit.logger.name)
    access = Access(OnlyAlice({})) if has_authorizer else None
    rights = Rights(access, Visitor(Principal("User", user), "192.0.2.7"), "/api/topics", reads_all=True, acts=acts)
    assert rights.may(Operation.DELETE, ResourceType.TOPIC, topic) is may
    lines = [one.getMessage() for one in caplog.records if one.name == audit.logger.name]
    assert len(lines) == int(has_authorizer and acts)
    assert all(line.startswith("allowed: " if may else "denied: ") for line in lines)


@pytest.mark.parametrize(
    ("operation", "seen"), [(Operation.DESCRIBE, True), (Operation.DESCRIBE_CONFIGS, True), (Operation.READ, False)]
)
async def test_records_are_never_open_to_everybody_if_there_is_an_authorizer(operation: Operation, seen: bool) -> None:
    visitor = Visitor(ANONYMOUS, "192.0.2.7")
    rights = Rights(Access(OnlyAlice({})), visitor, "/api", reads_all=True, acts=False)
    assert rights.sees(operation, ResourceType.TOPIC, "t") is seen
    assert Rights(None, visitor, "/api", reads_all=True, acts=False).sees(operation, ResourceType.TOPIC, "t")


INSIDE = "/api/v1/inside"


@pytest.mark.parametrize(
    "path",
    [
        "registry?path=/brokers/topics/{}",
        "storage?topic={}&partition=0",
        "storage/index?topic={}&partition=0&segment=0&index=offset",
        "storage/batches?topic={}&partition=0&segment=0",
        "storage/search?topic={}&partition=0&offset=0",
        "replication?topic={}&partition=0",
    ],
)
async def test_the_inside_of_hidden_topics_is_not_shown(broker: Broker, path: str) -> None:
    assert (await read(broker, "reader", f"{INSIDE}/{path.format('seen')}")).status == 200
    assert (await read(broker, "reader", f"{INSIDE}/{path.format('hidden')}")).status == 404
    assert (await read(broker, "admin", f"{INSIDE}/{path.format('hidden')}")).status == 200


async def test_hidden_topics_are_not_in_the_registry_tree(broker: Broker) -> None:
    found = json.loads((await read(broker, "reader", f"{INSIDE}/registry?path=/brokers/topics")).text)
    assert [one["name"] for one in found["children"]] == ["seen"]
    assert (await read(broker, "reader", f"{INSIDE}/replication/events?topic=hidden&partition=0")).status == 404


async def test_who_may_not_write_to_a_topic_cannot_follow_a_record(broker: Broker) -> None:
    body = {"topic": "seen", "partition": 0, "value": "v"}
    options: dict[str, Any] = {"method": "POST", "json": body}
    refused = await ask(broker, f"{INSIDE}/replication/trace", auth=basic("reader", "reader-secret"), **options)
    assert refused.status == 403
    written = await ask(broker, f"{INSIDE}/replication/trace", auth=basic("admin", "admin-secret"), **options)
    assert written.status == 200, written.text
