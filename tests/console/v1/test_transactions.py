"""Transactions over the REST API: open ones, hanging ones, and the end of both."""

import pytest

from broker.settings.checks import ACL_AUTHORIZER
from client.admin.admin import Admin
from client.errors import ProducerFencedError
from client.producer.producer import Producer
from ottla import testing
from support.authorization import allow, put_acls
from support.console import basic, console_broker, password_file
from support.hanging import HANGING_EPOCH, HANGING_ID, write_hanging
from support.own_console import own_console
from support.rest import rest_api

PATH = "/api/v1/transactions"
HANGING = "/api/v1/hanging-transactions"


@pytest.fixture(scope="module")
def servers():
    with testing.broker({"transaction.partition.verification.enable": "false"}) as broker:
        yield broker.bootstrap_servers


async def test_an_open_transaction_is_listed_and_described(servers):
    async with (
        Admin(bootstrap_servers=servers) as admin,
        rest_api(servers) as rest,
        Producer(transactional_id="billing", transaction_timeout_ms=900_000, bootstrap_servers=servers) as producer,
    ):
        await admin.create_topic("orders", partitions=2)
        await producer.begin_transaction()
        await producer.send("orders", b"first", partition=0)
        await producer.flush()
        (listed,) = (await rest.get(PATH))["transactions"]
        assert (listed["transactional_id"], listed["state"]) == ("billing", "Ongoing")
        assert listed["start_time_ms"] > 0
        found = await rest.get(f"{PATH}/billing")
        assert found["problems"] == []
        (partition,) = found["partitions"]
        assert partition == {
            "topic": "orders",
            "partition": 0,
            "start_offset": 0,
            "last_stable_offset": 0,
            "high_watermark": 1,
            "held_back": 1,
        }
        assert (await rest.get(HANGING, params={"max_timeout_minutes": "0"}))["hanging"] == []
        await producer.abort_transaction()
        missing = await rest.ask("GET", f"{PATH}/nobody")
        assert missing.status == 404


async def test_an_open_transaction_is_explained_and_aborted_once(servers):
    async with (
        Admin(bootstrap_servers=servers) as admin,
        rest_api(servers) as rest,
        Producer(transactional_id="to/abort", bootstrap_servers=servers) as producer,
    ):
        await admin.create_topic("lost", partitions=3)
        await producer.begin_transaction()
        for partition in range(3):
            await producer.send("lost", b"first", partition=partition)
        await producer.flush()
        path = f"{PATH}/to%2Fabort"
        before = await rest.get(path)
        shown = {"producer_id": before["producer_id"], "producer_epoch": before["producer_epoch"]}
        dry = await rest.ask("POST", f"{path}/abort", shown | {"dry_run": True})
        producer_text = f"fences producer {before['producer_id']} (epoch {before['producer_epoch']})"
        assert f"{producer_text} and aborts its transaction in lost-0, lost-1 and lost-2." in dry.body["text"]
        assert dry.body.items() >= shown.items()
        assert await rest.get(path) == before
        older = await rest.ask("POST", f"{path}/abort", shown | {"producer_epoch": before["producer_epoch"] + 1})
        assert (older.status, "it is Ongoing, with producer" in older.body["message"]) == (409, True)
        done = await rest.ask("POST", f"{path}/abort", shown)
        assert (done.status, "has fenced producer" in done.body["text"]) == (200, True)
        assert done.body["producer_epoch"] > before["producer_epoch"]
        after = await rest.get(path)
        assert (after["state"], after["partitions"], after["start_time_ms"]) == ("Empty", [], None)
        with pytest.raises(ProducerFencedError):
            await producer.commit_transaction()
        again = await rest.ask("POST", f"{path}/abort", shown)
        assert (again.status, "to/abort has no open transaction of producer" in again.body["message"]) == (409, True)
        unknown = await rest.ask("POST", f"{PATH}/nobody/abort", shown)
        assert unknown.status == 404
        assert "nobody" not in [one.transactional_id for one in await admin.list_transactions()]


async def test_an_abort_that_waits_for_a_leader_says_so():
    few = {"transaction.state.log.replication.factor": "1", "transaction.state.log.num.partitions": "1"}
    with testing.cluster(2, few) as cluster:
        async with (
            Admin(bootstrap_servers=cluster.bootstrap_servers) as admin,
            Producer(transactional_id="billing", bootstrap_servers=cluster.bootstrap_servers) as producer,
        ):
            (coordinator,) = (one.coordinator for one in await admin.list_transactions())
            (other,) = set(cluster.brokers) - {coordinator}
            await admin.create_topic("orders", assignment={0: [other]})
            await producer.begin_transaction()
            await producer.send("orders", b"first", partition=0)
            await producer.flush()
            servers = cluster.brokers[coordinator].bootstrap_servers
            async with rest_api(servers, timeout_ms=2000) as rest:
                found = await rest.get(f"{PATH}/billing")
                shown = {"producer_id": found["producer_id"], "producer_epoch": found["producer_epoch"]}
                cluster.kill_broker(other)
                answer = await rest.ask("POST", f"{PATH}/billing/abort", shown)
                why = f"broker {coordinator} waits for the leaders of orders-0."
                assert answer.status == 503
                assert answer.body["message"] == f"The transaction of billing is not aborted yet: {why}"


USERS = ("writer", "reader")
ACLS = [
    *(allow(f"User:{user}", "Describe", "Cluster") for user in USERS),
    *(allow(f"User:{user}", "Describe", "TransactionalId", "billing") for user in USERS),
    allow("User:writer", "Write", "TransactionalId", "billing"),
    allow("User:writer", "Describe", "Topic", "seen"),
]


@pytest.mark.parametrize(
    ("mode", "user", "status", "text"),
    [
        ("full", "reader", 403, "Write on TransactionalId billing is not allowed"),
        ("read-only", "writer", 403, "read-only"),
        ("full", "writer", 200, "its transaction in seen-0 and 2 more."),
    ],
)
async def test_an_abort_needs_the_right_to_write_to_the_transactional_id(tmp_path, mode, user, status, text):
    values = {
        "ottla.console.mode": mode,
        "ottla.console.authentication": "password-file",
        "authorizer.class.name": ACL_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        "num.partitions": "2",
        **password_file(tmp_path, **{name: f"{name}-secret" for name in USERS}),
    }
    async with (
        console_broker(tmp_path, values) as broker,
        own_console(broker, Authorization=basic(user, f"{user}-secret")) as rest,
        Producer(transactional_id="billing", bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        put_acls(broker, ACLS)
        await producer.begin_transaction()
        for topic, partition in (("seen", 0), ("hidden", 0), ("hidden", 1)):
            await producer.send(topic, b"first", partition=partition)
        await producer.flush()
        found = await rest.get(f"{PATH}/billing")
        shown = {"producer_id": found["producer_id"], "producer_epoch": found["producer_epoch"]}
        answer = await rest.ask("POST", f"{PATH}/billing/abort", shown)
        assert (answer.status, text in str(answer.body)) == (status, True), answer
        assert "hidden" not in str(answer.body)
        state = (await rest.get(f"{PATH}/billing"))["state"]
        assert state == ("Empty" if status == 200 else "Ongoing")


async def test_a_hanging_transaction_is_found_explained_and_aborted(servers):
    async with Admin(bootstrap_servers=servers) as admin, rest_api(servers) as rest:
        await admin.create_topic("stuck", partitions=1)
        await write_hanging(servers, "stuck", 0)
        assert (await rest.get(HANGING, params={"max_timeout_minutes": "60"}))["hanging"] == []
        (found,) = (await rest.get(HANGING))["hanging"]
        assert (found["topic"], found["partition"], found["start_offset"]) == ("stuck", 0, 0)
        assert (found["producer_id"], found["producer_epoch"]) == (HANGING_ID, HANGING_EPOCH)
        names = ("topic", "partition", "producer_id", "producer_epoch", "start_offset")
        body = {name: found[name] for name in names}
        dry = await rest.ask("POST", f"{HANGING}:abort", body | {"dry_run": True})
        assert "appends an abort marker for producer 4711 (epoch 3)" in dry.body["text"]
        assert "last stable offset, 0 of 1" in dry.body["text"]
        assert len((await rest.get(HANGING))["hanging"]) == 1
        done = await rest.ask("POST", f"{HANGING}:abort", body)
        assert (done.status, "has appended" in done.body["text"]) == (200, True)
        assert (await rest.get(HANGING))["hanging"] == []
        again = await rest.ask("POST", f"{HANGING}:abort", body)
        assert again.status == 409
        assert "no open transaction of producer 4711" in again.body["message"]


async def test_a_timeout_that_is_no_number_is_refused(servers):
    async with rest_api(servers) as rest:
        answer = await rest.ask("GET", HANGING, params={"max_timeout_minutes": "soon"})
        assert (answer.status, "must be a number of minutes" in answer.body["message"]) == (400, True)
