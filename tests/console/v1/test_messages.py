"""The records of a topic over /api/v1."""

import json

import pytest
import pytest_asyncio

from client.admin.admin import Admin
from client.producer.producer import Producer
from ottla import testing
from support.rest import rest_api

pytestmark = pytest.mark.asyncio(loop_scope="module")
BASE = 1_700_000_000_000
FOR_EVER = {"log.retention.ms": "-1"}
"""The records of these tests have old timestamps: they must not be deleted meanwhile."""


@pytest.fixture(scope="module")
def servers():
    with testing.broker(FOR_EVER) as broker:
        yield broker.bootstrap_servers


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rest(servers):
    async with rest_api(servers) as api:
        yield api


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def orders(servers):
    """A topic of three partitions with 30 records, one each second, in batches of one."""
    async with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        await admin.create_topic("orders", partitions=3)
        for n in range(30):
            await producer.send(
                "orders", b'{"n": %d}' % n, key=b"k%d" % n, partition=n % 3, timestamp_ms=BASE + n * 1000
            )
    return "/api/v1/topics/orders"


def numbers(page):
    return [json.loads(one["value"]["text"])["n"] for one in page["records"]]


async def test_the_newest_records_and_pages_back_to_the_first(rest, orders):
    seen, at = [], None
    while True:
        options = {"limit": 7} | ({"at": at, "direction": "older"} if at else {})
        page = await rest.get(f"{orders}/records", params=options)
        seen += numbers(page)
        assert page["errors"] == []
        at = page["older"]
        if at is None:
            break
        assert len(page["records"]) == 7
    assert seen == list(range(29, -1, -1))
    assert page["newer"] is not None
    again = await rest.get(f"{orders}/records", params={"at": page["newer"], "direction": "newer", "limit": 3})
    assert numbers(again) == [2, 3, 4]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"from": "oldest", "limit": 3}, [0, 1, 2]),
        ({"from": "oldest", "partitions": "1", "limit": 3}, [1, 4, 7]),
        ({"from": "offset:9"}, [27, 28, 29]),
        ({"from": f"time:{BASE + 27_500}"}, [28, 29]),
        ({"from": f"time:{BASE + 27_500}", "direction": "older", "limit": 2}, [27, 26]),
        ({"from": f"time:{BASE + 99_000}"}, []),
        ({"partitions": "2,0", "limit": 3}, [29, 27, 26]),
    ],
)
async def test_where_a_page_begins(rest, orders, options, expected):
    page = await rest.get(f"{orders}/records", params=options)
    assert numbers(page) == expected


async def test_a_record_with_all_that_is_known(rest, orders):
    record = await rest.get(f"{orders}/partitions/1/records/2")
    batch = record.pop("batch")
    assert (record["partition"], record["offset"], record["timestamp"]) == (1, 2, BASE + 7000)
    assert (record["timestamp_type"], record["headers"], record["transaction"]) == ("create", [], None)
    assert record["sequence"] == 2
    key = record["key"]
    assert (key["size"], key["decoder"], key["text"], key["is_truncated"], key["error"]) == (
        2,
        "text",
        "k7",
        False,
        None,
    )
    assert (batch["base_offset"], batch["record_count"], batch["compression"], batch["format"]) == (2, 1, "none", 2)
    assert batch["producer_id"] >= 0
    asked = {"key_decoder": "hex", "value_decoder": "int32"}
    other = await rest.get(f"{orders}/partitions/1/records/2", params=asked)
    assert other["key"]["text"] == "6b 37"
    assert other["value"]["error"] == "has 8 bytes; int32 has 4"


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        ("/records?from=sometime", 400, "from must be newest"),
        ("/records?at=x", 400, "PARTITION:OFFSET"),
        ("/records?partitions=9", 404, "topic orders has no partition 9"),
        ("/records?limit=501", 400, "from 1 to 500"),
        ("/records?value_decoder=rot13", 400, "there is no decoder 'rot13'"),
        ("/partitions/0/records/99", 404, "there is no record 99 in orders-0"),
        ("/partitions/0/records/x", 404, "offset must be a number"),
        ("/partitions/0/records/0/header", 404, "a record has a key and a value"),
    ],
)
async def test_what_is_refused(rest, orders, path, status, message):
    answer = await rest.ask("GET", orders + path)
    assert answer.status == status, answer
    assert message in answer.body["message"]


async def test_transactions_and_holes(rest, servers):
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic("payments", partitions=1)
    async with Producer(bootstrap_servers=servers, transactional_id="a") as producer:
        for n in range(10):
            await producer.begin_transaction()
            await producer.send("payments", b'{"n": %d}' % n, partition=0, timestamp_ms=BASE + n)
            await (producer.abort_transaction() if n % 2 else producer.commit_transaction())
        await producer.begin_transaction()
        await producer.send("payments", b'{"n": 10}', partition=0, timestamp_ms=BASE + 10)
        path = "/api/v1/topics/payments/records"
        assert numbers(await rest.get(path)) == [8, 6, 4, 2, 0]
        assert numbers(await rest.get(path, params={"limit": 2})) == [8, 6]
        assert numbers(await rest.get(path, params={"from": "oldest", "limit": 2})) == [0, 2]
        everything = await rest.get(path, params={"transactions": "all"})
        assert numbers(everything) == list(range(10, -1, -1))
        states = [one["transaction"] for one in everything["records"]]
        assert states == ["open", *["aborted", "committed"] * 5]
        assert (await rest.get("/api/v1/topics/payments/partitions/0/records/2"))["transaction"] == "aborted"
        await producer.abort_transaction()


async def test_large_values_are_shown_in_part_and_can_be_loaded(rest, servers):
    large = json.dumps({"text": "é" * 50_000}, ensure_ascii=False).encode()
    async with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        await admin.create_topic("large", partitions=1)
        await producer.send("large", large, partition=0, headers=[("trace", b"\x00\x01"), ("empty", None)])
        await producer.send("large", None, key=b"k", partition=0)
    page = await rest.get("/api/v1/topics/large/records")
    tombstone, record = page["records"]
    assert (tombstone["key"]["text"], tombstone["value"]) == ("k", None)
    assert (record["key"], record["value"]["size"], record["value"]["is_truncated"]) == (None, len(large), True)
    assert len(record["value"]["text"]) == 1000
    headers = {one["name"]: one["value"] and one["value"]["text"] for one in record["headers"]}
    assert headers == {"trace": "00 01", "empty": None}
    path = "/api/v1/topics/large/partitions/0/records"
    whole = (await rest.get(f"{path}/0"))["value"]
    assert (whole["text"].encode(), whole["decoder"], whole["is_truncated"]) == (large, "json", False)
    async with rest.http.get(rest.full(f"{path}/0/value")) as answer:
        assert await answer.read() == large
        assert answer.headers["Content-Disposition"] == 'attachment; filename="large-0-0.value"'
    assert (await rest.ask("GET", f"{path}/1/value")).status == 404


async def test_internal_topics_are_decoded(rest, servers):
    async with Admin(bootstrap_servers=servers) as admin:
        await admin.create_topic("read", partitions=1)
    page = await rest.get("/api/v1/topics/__transaction_state/records")
    found = next(one for one in page["records"] if one["value"])
    assert found["key"]["decoder"] == found["value"]["decoder"] == "internal"
    assert json.loads(found["key"]["text"])["data"] == {"transactionalId": "a"}
    assert json.loads(found["value"]["text"])["type"] == "TransactionLogValue"
