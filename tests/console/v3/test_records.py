"""Producing records over the REST API, and reading them back."""

import asyncio
import base64
import io
import json

import pytest

from client.consumer.reader import Reader
from client.topic_partition import TopicPartition
from console.rest.models import ErrorAnswer
from console.v3.records import MAX_ENTRIES, MAX_IN_FLIGHT_BYTES, _Lines
from support.polling import until


@pytest.fixture
async def topic(rest, request):
    name = "t" + "".join(one for one in request.node.name if one.isalnum())
    answer = await rest.ask("POST", "topics", {"topic_name": name, "partitions_count": 2})
    assert answer.status == 201
    return name


async def read(broker, topic, count, partition=0):
    """The first records of a partition."""
    async with Reader(bootstrap_servers=broker.bootstrap_servers) as reader:
        reader.assign({TopicPartition(topic, partition): "beginning"})
        found = []
        while len(found) < count:
            found += await reader.fetch()
        return found


async def lines_of(rest, topic, data, **headers):
    """Send a body; return the lines of the answer."""
    options = {"data": data, "headers": {"Content-Type": "application/json"} | headers}
    async with rest.http.post(rest.full(f"topics/{topic}/records"), **options) as response:
        text = await response.text()
        assert response.status == 200, text
        return [json.loads(line) for line in text.splitlines()]


def text(data, **more):
    return {"partition_id": 0, "value": {"type": "STRING", "data": data}} | more


async def test_every_type_of_data_is_written_and_read(broker, rest, topic):
    sent = [
        ({"type": "STRING", "data": "grüße"}, "grüße".encode()),
        ({"type": "BINARY", "data": base64.b64encode(b"\x00\xff").decode()}, b"\x00\xff"),
        ({"type": "JSON", "data": {"a": [1, "é", None]}}, '{"a":[1,"é",null]}'.encode()),
        ({"type": "JSON", "data": "text"}, b'"text"'),
        ({"type": "STRING", "data": None}, None),
        ({"type": "JSON"}, None),
    ]
    for offset, (data, expected) in enumerate(sent):
        answer = await rest.ask("POST", f"topics/{topic}/records", {"partition_id": 0, "key": data, "value": data})
        assert (answer.status, answer.body["error_code"], answer.body["offset"]) == (200, 200, offset)
        assert answer.body["key"] == answer.body["value"] == {"size": len(expected or b""), "type": data["type"]}
    records = await read(broker, topic, len(sent))
    assert [one.value for one in records] == [one.key for one in records] == [expected for _, expected in sent]


async def test_headers_timestamp_and_partition(broker, rest, topic):
    body = {
        "partition_id": 1,
        "timestamp": "2026-01-02T03:04:05.678Z",
        "headers": [{"name": "h", "value": base64.b64encode(b"v").decode()}, {"name": "n", "value": None}],
    }
    answer = await rest.ask("POST", f"topics/{topic}/records", body)
    assert answer.body["partition_id"] == 1
    assert answer.body["timestamp"] == "2026-01-02T03:04:05.678Z"
    assert "key" not in answer.body
    (record,) = await read(broker, topic, 1, partition=1)
    assert (record.key, record.value, record.timestamp) == (None, None, 1767323045678)
    assert list(record.headers) == [("h", b"v"), ("n", None)]


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_several_records_in_one_body(broker, rest, topic, is_chunked):
    data = b"".join(json.dumps(text(str(number))).encode() for number in range(3000))

    async def pieces():
        for start in range(0, len(data), 5000):
            yield data[start : start + 5000]

    lines = await lines_of(rest, topic, pieces() if is_chunked else data)
    assert [one["offset"] for one in lines] == list(range(3000))
    assert [one.value for one in await read(broker, topic, 3000)] == [b"%d" % number for number in range(3000)]


async def test_a_record_is_answered_while_the_body_is_open(rest, topic):
    to_send = asyncio.Queue()

    async def pieces():
        while (piece := await to_send.get()) is not None:
            yield piece

    await to_send.put(json.dumps(text("0")).encode())
    headers = {"Content-Type": "application/json"}
    async with rest.http.post(rest.full(f"topics/{topic}/records"), data=pieces(), headers=headers) as response:
        for offset in range(3):
            assert json.loads(await response.content.readline())["offset"] == offset
            await to_send.put(json.dumps(text(str(offset + 1))).encode())
        await to_send.put(None)
        assert json.loads(await response.content.readline())["offset"] == 3
        assert await response.content.read() == b""


async def test_wrong_records_do_not_stop_the_others(rest, topic):
    wrong = [
        (text("a") | {"vaule": 1}, 400, "vaule"),
        (text("a", partition_id=7), 40402, "no partition"),
        (text("a", partition_id=-1), 40402, "no partition"),
        ({"value": {"type": "BINARY", "data": "?"}}, 400, "value: is not base64"),
        ({"value": {"type": "STRING", "data": 1}}, 400, "must be a string"),
        ({"key": {"data": "a"}}, 400, "key: the type"),
        ({"value": {"type": "AVRO", "data": "a"}}, 422, "schema registry"),
        ({"value": {"schema_id": 1, "data": "a"}}, 422, "schema registry"),
        (text("a", timestamp="1960-01-01T00:00:00Z"), 400, "before 1970"),
        (text("x" * (2 << 20)), 40002, "max_request_size"),
    ]
    body = b" ".join(json.dumps(one).encode() for one in [text("first"), *[one for one, *_ in wrong], text("last")])
    first, *failed, last = await lines_of(rest, topic, io.BytesIO(body))
    assert (first["offset"], last["offset"]) == (0, 1)
    assert [one["error_code"] for one in failed] == [code for _, code, _ in wrong]
    for one, (_, _, expected) in zip(failed, wrong, strict=True):
        assert expected in one["message"]


async def test_a_stream_that_breaks_is_answered_up_to_there(rest, topic):
    first, second = await lines_of(rest, topic, json.dumps(text("a")).encode() + b" [")
    assert (first["offset"], second["error_code"]) == (0, 400)
    first, second = await lines_of(rest, topic, json.dumps(text("b")).encode() + b' {"value"')
    assert (first["offset"], second["error_code"]) == (1, 400)
    for data in (b"[", b"", b"  "):
        options = {"data": data, "headers": {"Content-Type": "application/json"}}
        async with rest.http.post(rest.full(f"topics/{topic}/records"), **options) as response:
            assert response.status == 400
            assert (await response.json())["error_code"] == 400


async def test_an_unknown_topic_is_not_created(rest):
    answer = await rest.ask("POST", "topics/unknown/records", text("a"))
    assert (answer.status, answer.body["error_code"]) == (404, 40403)
    assert (await rest.ask("GET", "topics/unknown")).status == 404


async def test_a_partition_that_was_added_a_moment_ago(broker, rest, topic):
    assert (await lines_of(rest, topic, json.dumps(text("a")).encode()))[0]["error_code"] == 200
    assert (await rest.ask("PATCH", f"topics/{topic}", {"partitions_count": 3})).status == 200

    async def has_three():
        return len((await rest.get(f"topics/{topic}/partitions"))["data"]) == 3

    await until(has_three, "the topic has three partitions")
    (answer,) = await lines_of(rest, topic, json.dumps(text("b", partition_id=2)).encode())
    assert (answer.get("partition_id"), answer.get("offset")) == (2, 0), answer


async def test_a_batch(broker, rest, topic):
    entries = [text("a", id="1"), text("b", id="2", partition_id=9), text("c", id="3")]
    answer = await rest.ask("POST", f"topics/{topic}/records:batch", {"entries": entries})
    assert answer.status == 207
    assert [(one["id"], one["offset"]) for one in answer.body["successes"]] == [("1", 0), ("3", 1)]
    (failed,) = answer.body["failures"]
    assert (failed["id"], failed["error_code"]) == ("2", 40402)
    assert [one.value for one in await read(broker, topic, 2)] == [b"a", b"c"]
    for wrong in ([], [text("a", id="1"), text("b", id="1")], [text("a")]):
        answer = await rest.ask("POST", f"topics/{topic}/records:batch", {"entries": wrong})
        assert (answer.status, answer.body["error_code"]) == (400, 400)


async def test_a_stream_is_not_read_further_while_large_records_wait_for_their_acknowledgements():
    lines = _Lines(None, is_held=False)
    first, second = (asyncio.get_running_loop().create_future() for _ in range(2))
    await lines.add(first, MAX_IN_FLIGHT_BYTES)
    adding = asyncio.ensure_future(lines.add(second, 1))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not adding.done()
    first.set_result(ErrorAnswer(error_code=400, message=""))
    await adding


async def test_a_batch_has_a_limited_number_of_entries(rest, topic):
    entries = [{"id": str(number)} | text("") for number in range(MAX_ENTRIES + 1)]
    answer = await rest.ask("POST", f"topics/{topic}/records:batch", {"entries": entries})
    assert answer.status == 400
    assert f"at most {MAX_ENTRIES} items" in answer.body["message"]
