"""Transactions over the REST API: open ones, hanging ones, and the end of a hanging one."""

import pytest

from client.admin.admin import Admin
from client.producer.producer import Producer
from ottla import testing
from support.hanging import HANGING_EPOCH, HANGING_ID, write_hanging
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
