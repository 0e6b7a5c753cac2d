"""The files of a partition in a broker's own console."""

import pytest
import pytest_asyncio

from broker.inspection.storage import LogStorage
from client.admin.admin import Admin
from client.producer.producer import Producer
from console.inspection.errors import BusyError
from storage.log.inspection import LogInspection
from support.console import console_broker
from support.own_console import own_console

pytestmark = pytest.mark.asyncio(loop_scope="module")

STORAGE = "/api/v1/inside/storage"
ORDERS = "topic=orders&partition=0"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(tmp_path_factory):
    values = {"log.index.interval.bytes": "64", "log.segment.bytes": "4000"}
    async with console_broker(tmp_path_factory.mktemp("inside"), values) as running:
        servers = running.bootstrap_servers
        async with Admin(bootstrap_servers=servers) as admin, Producer(bootstrap_servers=servers) as producer:
            await admin.create_topic("orders", 1)
            for number in range(150):
                await producer.send("orders", f"value {number}".encode())
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rest(broker):
    async with own_console(broker) as api:
        yield api


@pytest.fixture
def log(broker):
    return broker.services.replicas.partitions[("orders", 0)].log


async def test_segments_offsets_epochs_and_producers(broker, rest, log):
    found = await rest.get(f"{STORAGE}?{ORDERS}")
    assert found["replicas"] == [found["broker_id"]] == [found["leader"]]
    assert (found["log_start_offset"], found["high_watermark"], found["log_end_offset"]) == (0, 150, 150)
    assert [one["base_offset"] for one in found["segments"]] == [one.base_offset for one in log.segments]
    assert found["segments_found"] == len(log.segments) > 2
    assert [one["next_offset"] for one in found["segments"]] == [*log.segments.base_offsets[1:], 150]
    assert [one["is_active"] for one in found["segments"]][-2:] == [False, True]
    files = {one["name"].partition(".")[2]: one["size"] for one in found["segments"][0]["files"]}
    assert files["log"] == log.segments[0].size
    assert found["leader_epochs"] == [{"epoch": 0, "start_offset": 0}]
    (producer,) = found["producers"]
    assert (producer["last_sequence"], producer["last_offset"], producer["transaction_start"]) == (149, 149, None)
    later = await rest.get(f"{STORAGE}?{ORDERS}&first=1")
    assert later["segments"] == found["segments"][1:]


async def test_index_and_batches_in_pages(rest, log):
    segment = log.segments[1]
    page = await rest.get(f"{STORAGE}/index?{ORDERS}&segment={segment.base_offset}&index=offset&first=2")
    assert page["entries_found"] == segment.offset_index.entries
    assert [(one["offset"], one["position"]) for one in page["entries"]] == segment.offset_index.absolute_entries()[2:]
    times = await rest.get(f"{STORAGE}/index?{ORDERS}&segment={segment.base_offset}&index=time")
    assert times["entries"][0]["timestamp_ms"] > 0
    aborted = await rest.get(f"{STORAGE}/index?{ORDERS}&segment={segment.base_offset}&index=transaction")
    assert aborted == {"entries_found": 0, "first": 0, "entries": []}
    batches = await rest.get(f"{STORAGE}/batches?{ORDERS}&segment={segment.base_offset}")
    first = batches["batches"][0]
    assert (first["position"], first["base_offset"], first["is_crc_valid"], first["compression"]) == (
        0,
        segment.base_offset,
        True,
        "none",
    )
    assert "value" not in str(batches)


async def test_the_search_of_an_offset(rest, log):
    found = await rest.get(f"{STORAGE}/search?{ORDERS}&offset=40")
    segment, position, size = log.segments.find(40)
    assert found["base_offset"] == segment.base_offset
    assert (found["scanned"][-1]["position"], found["scanned"][-1]["size"]) == (position, size)
    assert found["index_steps"]
    assert found["is_found"]


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("?topic=none&partition=0", 404, "there is no partition none-0"),
        ("?topic=orders&partition=7", 404, "there is no partition orders-7"),
        ("?topic=orders&partition=x", 400, "partition must be a number"),
        ("/search?topic=orders&partition=0&offset=150", 400, "from 0 to 149"),
        ("/batches?topic=orders&partition=0&segment=0&position=7", 400, "cannot be read"),
        ("/batches?topic=orders&partition=0&segment=3", 404, "no segment 3"),
        ("/index?topic=orders&partition=0&segment=0&index=none", 400, "must be one of"),
        ("/search?topic=none&partition=0&offset=1", 404, "there is no partition"),
    ],
)
async def test_refusals(rest, path, status, text):
    answer = await rest.ask("GET", STORAGE + path)
    assert (answer.status, text in answer.body["message"]) == (status, True), answer


async def test_a_log_that_is_elsewhere_says_where(broker, rest):
    partitions = broker.services.replicas.partitions
    here = partitions.pop(("orders", 0))
    try:
        found = await rest.get(f"{STORAGE}?{ORDERS}")
        assert (found["directory"], found["segments"]) == (None, [])
        assert found["replicas"]
        answer = await rest.ask("GET", f"{STORAGE}/search?{ORDERS}&offset=1")
        assert (answer.status, "not on this broker, but on: " in answer.body["message"]) == (404, True)
    finally:
        partitions[("orders", 0)] = here


async def test_a_read_is_repeated_if_the_log_has_lost_records_meanwhile(broker, log, monkeypatch):
    storage, calls = LogStorage(broker.services), []

    def search(inspection, offset):
        calls.append(offset)
        log.segments.changes += 1
        raise OSError("a file is gone")

    monkeypatch.setattr(LogInspection, "search", search)
    with pytest.raises(BusyError, match="all the time"):
        await storage.search("orders", 0, 1)
    assert len(calls) == 3
