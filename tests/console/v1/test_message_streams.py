"""Search, live tail and download over /api/v1."""

import asyncio
import contextlib
import csv
import io
import json

import pytest
import pytest_asyncio

from client.admin.admin import Admin
from client.producer.producer import Producer
from console.messages.tail import MOST_IN_A_LOOK
from ottla import testing
from support.deadlines import DEADLINE_S
from support.rest import rest_api

pytestmark = pytest.mark.asyncio(loop_scope="module")
BASE = 1_700_000_000_000
FOR_EVER = {"log.retention.ms": "-1"}
"""The records of these tests have old timestamps: they must not be deleted meanwhile."""
COUNT = 3000


@pytest.fixture(scope="module")
def servers():
    with testing.broker(FOR_EVER) as broker:
        yield broker.bootstrap_servers


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rest(servers):
    async with rest_api(servers) as api:
        yield api


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def clicks(servers):
    async with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        await admin.create_topic("clicks", partitions=2)
        sent = [
            producer.send("clicks", b'{"n": %d}' % n, key=b"=%d" % n, partition=n % 2, timestamp_ms=BASE + n)
            for n in range(COUNT)
        ]
        await asyncio.gather(*sent)
    return "/api/v1/topics/clicks/records"


class Events:
    """The events of a stream, one after the other."""

    def __init__(self, response):
        self._response = response

    async def next(self):
        """The name and the data of the next event."""
        name = None
        async with asyncio.timeout(DEADLINE_S):
            async for line in self._response.content:
                text = line.decode().rstrip("\n")
                if text.startswith("event: "):
                    name = text.removeprefix("event: ")
                elif text.startswith("data: "):
                    return name, json.loads(text.removeprefix("data: "))
        return None, None


@contextlib.asynccontextmanager
async def events_of(rest, address, **query):
    async with rest.http.get(rest.full(address), params=query) as response:
        assert response.status == 200, await response.text()
        yield Events(response)


async def search(rest, address, **query):
    """The numbers that a search finds, and its end."""
    found = []
    async with events_of(rest, address, **query) as events:
        while True:
            name, data = await events.next()
            if name == "records":
                found += [json.loads(one["value"]["text"])["n"] for one in data["records"]]
            elif name == "end":
                return found, data


async def test_a_search_ends_at_its_limit_and_continues(rest, clicks):
    address = clicks + ":search"
    found, end = await search(rest, address, path="n >= 2990", limit="4")
    assert found == [2999, 2998, 2997, 2996]
    assert (end["matched"], end["is_complete"], end["errors"]) == (4, False, [])
    more, end = await search(rest, address, path="n >= 2990", at=end["at"], direction="older")
    assert more == [2995, 2994, 2993, 2992, 2991, 2990]
    assert end["is_complete"]
    assert end["scanned"] == COUNT - 4


async def test_a_search_looks_at_a_limited_number_of_records(rest, clicks):
    address = clicks + ":search"
    found, end = await search(rest, address, **{"from": "oldest"}, regex='"n": 250[0-9]', max_scanned="1000")
    assert (found, end["scanned"], end["is_complete"]) == ([], 1000, False)
    while not end["is_complete"]:
        more, end = await search(
            rest, address, at=end["at"], direction="newer", regex='"n": 250[0-9]', max_scanned="1000"
        )
        found += more
    assert sorted(found) == list(range(2500, 2510))


async def test_wrong_filters_are_refused_before_the_stream(rest, clicks):
    answer = await rest.ask("GET", clicks + ":search", params={"regex": "("})
    assert (answer.status, answer.body["error_code"]) == (400, 400)


async def test_the_tail_shows_what_is_written(rest, servers):
    async with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
        await admin.create_topic("live", partitions=2)
        await producer.send("live", b"before", partition=0)
        async with events_of(rest, "/api/v1/topics/live/records:tail") as events:
            begin = (await events.next())[1]
            assert (begin["records"], begin["skipped"], begin["at"]) == ([], 0, "0:1,1:0")
            await producer.send("live", b"new", partition=1)
            name, data = await events.next()
            assert name == "records"
            assert [(one["partition"], one["value"]["text"]) for one in data["records"]] == [(1, "new")]
            assert data["skipped"] == 0
        await producer.send("live", b"meanwhile", partition=0)
        async with events_of(rest, "/api/v1/topics/live/records:tail", at=data["at"]) as events:
            await events.next()
            _, data = await events.next()
            assert [one["value"]["text"] for one in data["records"]] == ["meanwhile"]
        async with events_of(rest, "/api/v1/topics/live/records:tail", at=begin["at"]) as events:
            await events.next()
            _, data = await events.next()
            assert sorted(one["value"]["text"] for one in data["records"]) == ["meanwhile", "new"]


async def test_the_tail_skips_what_is_too_much_and_counts_it(rest, clicks):
    async with events_of(rest, clicks + ":tail", at="0:0,1:0") as events:
        await events.next()
        _, data = await events.next()
    assert len(data["records"]) == MOST_IN_A_LOOK
    assert data["skipped"] == COUNT - MOST_IN_A_LOOK
    assert json.loads(data["records"][-1]["value"]["text"]) == {"n": COUNT - 1}


async def test_a_download_as_json_lines_and_as_csv(rest, clicks):
    async with rest.http.get(rest.full(clicks + ":download"), params={"from": "oldest"}) as answer:
        lines = [json.loads(line) for line in (await answer.text()).splitlines()]
        assert answer.headers["Content-Disposition"] == 'attachment; filename="clicks.jsonl"'
    assert [json.loads(one["value"])["n"] for one in lines] == list(range(COUNT))
    query = {"format": "csv", "limit": "2", "from": "oldest", "path": "n > 6"}
    async with rest.http.get(rest.full(clicks + ":download"), params=query) as answer:
        rows = list(csv.reader(io.StringIO(await answer.text())))
    assert rows[0] == ["partition", "offset", "timestamp", "key", "value", "headers"]
    assert rows[1] == ["1", "3", str(BASE + 7), "'=7", '{"n": 7}', "{}"]
    assert len(rows) == 3
