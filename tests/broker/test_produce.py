"""Produce: what is taken, what is refused and how, and what acks promise."""

from __future__ import annotations

import pytest
from crc32c import crc32c

from protocol.compression import CompressionType
from protocol.error_codes import ErrorCode
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.record_batch import iter_batches
from support.broker import running_broker
from support.deadlines import DEADLINE_MS
from support.polling import until
from support.wire import NOW_MS, append, batch, create_topic, fetch, message_set, produce, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")

ALL_VERSIONS = range(12)


async def read(client, topic, offset=0, partition=0):
    """All records of a partition from an offset on: (offset, value)."""
    answer = await client.call(fetch(topic, offset, partition), 12)
    one = answer.responses[0].partitions[0]
    assert one.error_code == 0
    return [(record.offset, record.value) for each in iter_batches(one.records) for record in each.records()]


@pytest.mark.parametrize("version", ALL_VERSIONS)
async def test_every_version_appends(client, name, version):
    topic = name()
    await create_topic(client, topic)
    magic = 0 if version < 2 else 1
    records = batch(b"a", b"b") if version >= 3 else message_set(magic, b"a", b"b")
    first = await append(client, topic, bytes(records), version=version)
    second = await append(client, topic, bytes(records), version=version, acks=1)
    assert (first.error_code, first.base_offset) == (0, 0)
    assert (second.error_code, second.base_offset) == (0, 2)
    assert first.log_start_offset == (0 if version >= 5 else -1)
    assert first.log_append_time_ms == -1
    assert await read(client, topic) == [(0, b"a"), (1, b"b"), (2, b"a"), (3, b"b")]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4])
async def test_compressed_message_sets_are_up_converted(client, name, magic, codec):
    topic = name()
    await create_topic(client, topic)
    answer = await append(client, topic, message_set(magic, b"a", b"b", codec=codec), version=2)
    assert answer.error_code == 0
    assert await read(client, topic) == [(0, b"a"), (1, b"b")]


@pytest.mark.parametrize("acks", [2, 7, -2, 32767])
async def test_other_acks_are_refused(client, name, acks):
    topic = name()
    await create_topic(client, topic)
    answer = await append(client, topic, batch(b"v"), acks=acks)
    assert (answer.error_code, answer.base_offset) == (ErrorCode.INVALID_REQUIRED_ACKS, -1)
    assert await read(client, topic) == []


async def test_acks_0_gets_no_answer_and_keeps_its_order(client, name):
    topic = name()
    await create_topic(client, topic)
    for i in range(3):
        client.send(produce(topic, batch(b"%d" % i), acks=0), 9)
    answer = await append(client, topic, batch(b"last"))
    assert answer.base_offset == 3
    assert [value for _, value in await read(client, topic)] == [b"0", b"1", b"2", b"last"]


@pytest.mark.parametrize(
    ("topic", "records"), [("missing", batch(b"v")), ("there", b"\0" * 70), ("there", b""), ("there", None)]
)
async def test_an_error_under_acks_0_closes_the_connection(broker, client, topic, records):
    if topic == "there":
        topic = f"there-{len(records) if records is not None else 'null'}"
        await create_topic(client, topic)
    async with wire_client(broker.bootstrap_servers) as other:
        other.send(produce(topic, records, acks=0), 9)
        assert await other.is_closed()
    assert (await append(client, "nowhere", batch(b"v"))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_acks_0_gets_no_answer_with_flush_messages(client, name):
    topic = name()
    await create_topic(client, topic, flush_messages="1")
    client.send(produce(topic, batch(b"v"), acks=0), 9)
    assert (await append(client, topic, batch(b"last"))).base_offset == 1


async def test_partitions_of_a_request_fail_and_succeed_separately(client, name):
    topic, other = name(), name()
    await create_topic(client, topic, partitions=3)
    await create_topic(client, other)
    good, corrupt = batch(b"v"), batch(b"v")
    corrupt[-1] ^= 1
    request = ProduceRequest(
        acks=-1,
        timeout_ms=DEADLINE_MS,
        topic_data=[
            TopicProduceData(
                name=topic,
                partition_data=[
                    PartitionProduceData(index=2, records=good),
                    PartitionProduceData(index=0, records=corrupt),
                    PartitionProduceData(index=7, records=good),
                ],
            ),
            TopicProduceData(name="missing", partition_data=[PartitionProduceData(index=0, records=good)]),
            TopicProduceData(name=other, partition_data=[PartitionProduceData(index=0, records=good)]),
        ],
    )
    answer = await client.call(request)
    codes = {
        (one.name, each.index): (each.error_code, each.base_offset)
        for one in answer.responses
        for each in one.partition_responses
    }
    assert codes == {
        (topic, 2): (ErrorCode.NONE, 0),
        (topic, 0): (ErrorCode.CORRUPT_MESSAGE, -1),
        (topic, 7): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        ("missing", 0): (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
        (other, 0): (ErrorCode.NONE, 0),
    }


async def test_an_empty_request_is_answered(client):
    answer = await client.call(ProduceRequest(acks=1, timeout_ms=1, topic_data=[]))
    assert answer.responses == []


def with_magic(magic):
    records = batch(b"v")
    records[16] = magic
    return records


def with_base_offset():
    records = batch(b"v")
    records[7] = 5
    return records


def with_length(length):
    records = batch(b"v")
    records[8:12] = length.to_bytes(4, "big", signed=True)
    return records


def sealed(records):
    """With the checksum that fits."""
    records[17:21] = crc32c(memoryview(records)[21:]).to_bytes(4, "big")
    return records


def with_count(count, last_offset_delta):
    records = batch(b"a", b"b")
    records[23:27] = last_offset_delta.to_bytes(4, "big", signed=True)
    records[57:61] = count.to_bytes(4, "big", signed=True)
    return sealed(records)


def control_batch():
    records = batch(b"v", producer_id=1, producer_epoch=0, sequence=0)
    records[22] |= 0x20
    return sealed(records)


def without_sequence():
    records = batch(b"v", producer_id=1, producer_epoch=0, sequence=0)
    records[53:57] = b"\xff" * 4
    return sealed(records)


def with_log_append_time():
    records = batch(b"v")
    records[22] |= 0x08
    return sealed(records)


REFUSED = [
    # (records, version, error, log start offset that Kafka tells with it)
    ("null", None, 9, ErrorCode.INVALID_RECORD, -1),
    ("nothing", b"", 9, ErrorCode.INVALID_RECORD, -1),
    ("nothing, old", b"", 2, ErrorCode.INVALID_RECORD, 0),
    ("a few bytes", b"\0" * 16, 9, ErrorCode.INVALID_RECORD, -1),
    ("zeros", b"\0" * 100, 9, ErrorCode.CORRUPT_MESSAGE, -1),
    ("two batches", batch(b"v") * 2, 9, ErrorCode.INVALID_RECORD, -1),
    ("magic 1 in a new version", message_set(1, b"v"), 3, ErrorCode.INVALID_RECORD, -1),
    ("magic 0 in a new version", message_set(0, b"v"), 8, ErrorCode.INVALID_RECORD, -1),
    ("magic 3", with_magic(3), 9, ErrorCode.CORRUPT_MESSAGE, -1),
    ("magic 255", with_magic(255), 9, ErrorCode.CORRUPT_MESSAGE, -1),
    ("base offset", with_base_offset(), 9, ErrorCode.INVALID_RECORD, 0),
    ("length too long", with_length(1000), 9, ErrorCode.INVALID_RECORD, -1),
    ("length too short", with_length(13), 9, ErrorCode.CORRUPT_MESSAGE, -1),
    ("length negative", with_length(-1), 9, ErrorCode.CORRUPT_MESSAGE, -1),
    ("count and delta differ", with_count(2, 4), 9, ErrorCode.INVALID_RECORD, 0),
    ("no records", with_count(0, -1), 9, ErrorCode.INVALID_RECORD, 0),
    ("negative count", with_count(-3, -4), 9, ErrorCode.INVALID_RECORD, 0),
    ("control batch", control_batch(), 9, ErrorCode.INVALID_RECORD, 0),
    ("zstd before v7", batch(b"v", codec=CompressionType.ZSTD), 6, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1),
    ("transaction without id", batch(b"v", producer_id=1, producer_epoch=0, sequence=0, transactional=True), 9, 53, -1),
    ("producer id without sequence", without_sequence(), 9, ErrorCode.INVALID_RECORD, 0),
    ("log append time", with_log_append_time(), 9, ErrorCode.INVALID_TIMESTAMP, 0),
]


@pytest.mark.parametrize(
    ("records", "version", "code", "log_start_offset"),
    [case[1:] for case in REFUSED],
    ids=[case[0] for case in REFUSED],
)
async def test_refused_records(client, name, records, version, code, log_start_offset):
    topic = name()
    await create_topic(client, topic)
    answer = await append(client, topic, records, version=version)
    assert answer.error_code == code
    assert answer.base_offset == -1
    if version >= 5:
        assert answer.log_start_offset == log_start_offset
    assert await read(client, topic) == []
    missing = await append(client, "missing", records, version=version)
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_too_large(client, name):
    topic = name()
    await create_topic(client, topic, max_message_bytes="1000")
    records = batch(b"v" * 2000)
    answer = await append(client, topic, records)
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    assert (await append(client, topic, batch(b"v" * 900))).error_code == 0
    small = name()
    await create_topic(client, small, segment_bytes="1024", max_message_bytes="1048588")
    answer = await append(client, small, batch(b"v" * 2000))
    assert answer.error_code == ErrorCode.RECORD_LIST_TOO_LARGE


async def test_keys_on_a_compacted_topic(client, name):
    topic = name()
    await create_topic(client, topic, cleanup_policy="compact")
    for codec in CompressionType:
        answer = await append(client, topic, batch(b"a", b"b", key=None, codec=codec))
        assert answer.error_code == ErrorCode.INVALID_RECORD
        assert [one.batch_index for one in answer.record_errors] == [0, 1]
        assert all(one.batch_index_error_message for one in answer.record_errors)
        assert answer.error_message
        assert answer.log_start_offset == 0
    old = await append(client, topic, batch(b"a", key=None), version=7)
    assert old.error_code == ErrorCode.INVALID_RECORD
    assert (await append(client, topic, batch(None))).error_code == 0


async def test_timestamps_out_of_range(client, name):
    topic = name()
    await create_topic(client, topic, message_timestamp_before_max_ms="1000")
    answer = await append(client, topic, batch(b"v", timestamp=NOW_MS))
    assert answer.error_code == ErrorCode.INVALID_TIMESTAMP
    assert [one.batch_index for one in answer.record_errors] == [0]
    assert answer.error_message
    assert answer.log_start_offset == 0


@pytest.mark.parametrize("codec", list(CompressionType))
async def test_log_append_time(broker, client, name, codec):
    topic = name()
    await create_topic(client, topic, message_timestamp_type="LogAppendTime")
    before = broker.services.now_ms()
    answer = await append(client, topic, batch(b"a", b"b", codec=codec))
    after = broker.services.now_ms()
    assert before <= answer.log_append_time_ms <= after
    fetched = await client.call(fetch(topic), 12)
    (one,) = iter_batches(fetched.responses[0].partitions[0].records)
    assert {record.timestamp for record in one.records()} == {answer.log_append_time_ms}
    one.check_crc()


async def test_topic_codec_recompresses(client, name):
    topic = name()
    await create_topic(client, topic, compression_type="lz4")
    assert (await append(client, topic, batch(b"a" * 500, codec=CompressionType.GZIP))).error_code == 0
    fetched = await client.call(fetch(topic), 12)
    (one,) = iter_batches(fetched.responses[0].partitions[0].records)
    assert one.compression is CompressionType.LZ4
    assert await read(client, topic) == [(0, b"a" * 500)]


# -- idempotent producers ----------------------------------------------------------------------------------------------


def from_producer(sequence, *values, producer_id=77, epoch=0):
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, sequence=sequence)


async def test_duplicates_and_gaps(client, name):
    topic = name()
    await create_topic(client, topic)
    for i in range(6):
        assert (await append(client, topic, from_producer(2 * i, b"a", b"b"))).base_offset == 2 * i
    for i in range(1, 6):  # the last five batches are remembered
        again = await append(client, topic, from_producer(2 * i, b"a", b"b"))
        assert (again.error_code, again.base_offset) == (ErrorCode.NONE, 2 * i)
    too_old = await append(client, topic, from_producer(0, b"a", b"b"))
    assert too_old.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    gap = await append(client, topic, from_producer(13, b"a"))
    assert (gap.error_code, gap.base_offset) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    assert len(await read(client, topic)) == 12
    assert (await append(client, topic, from_producer(12, b"c"))).base_offset == 12


async def test_epochs(client, name):
    topic = name()
    await create_topic(client, topic)
    assert (await append(client, topic, from_producer(0, b"a", epoch=1))).error_code == 0
    not_from_0 = await append(client, topic, from_producer(5, b"a", epoch=2))
    assert not_from_0.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await append(client, topic, from_producer(0, b"b", epoch=2))).base_offset == 1
    old = await append(client, topic, from_producer(1, b"c", epoch=1))
    assert old.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    unknown = await append(client, topic, from_producer(9, b"d", producer_id=78))
    assert unknown.error_code == ErrorCode.NONE  # a producer whose state has expired goes on
    assert [value for _, value in await read(client, topic)] == [b"a", b"b", b"d"]


async def test_sequences_wrap_around(client, name):
    topic = name()
    await create_topic(client, topic)
    assert (await append(client, topic, from_producer(2**31 - 2, b"a", b"b", b"c"))).error_code == 0
    assert (await append(client, topic, from_producer(2, b"x"))).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await append(client, topic, from_producer(1, b"d"))).base_offset == 3


# -- who may -----------------------------------------------------------------------------------------------------------


async def test_internal_topics_are_refused(client):
    await create_topic(client, "__consumer_offsets")
    answer = await append(client, "__consumer_offsets", batch(b"v"))
    assert (answer.error_code, answer.log_start_offset) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
    missing = await append(client, "__transaction_state", batch(b"v"))
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    admin = await client.call(produce("__consumer_offsets", batch(b"v")), 9, client_id="__admin_client")
    assert admin.responses[0].partition_responses[0].error_code == ErrorCode.NONE


async def test_acks_all_waits_for_the_high_watermark(tmp_path, monkeypatch):
    """A follower that is in sync but never fetches: acks=1 is answered, acks=all times out, its records stay."""
    monkeypatch.setattr("broker.network.connection.CLOSE_LINGER_S", 0.1)
    from protocol.messages.leader_and_isr import LeaderAndIsrPartitionState, LeaderAndIsrRequest, LeaderAndIsrTopicState

    async with running_broker(tmp_path / "data") as broker, wire_client(broker.bootstrap_servers) as client:
        topic_id = await create_topic(client, "t")
        state = LeaderAndIsrPartitionState(
            partition_index=0, controller_epoch=9, leader=0, leader_epoch=5, isr=[0, 7], replicas=[0, 7]
        )
        topic = LeaderAndIsrTopicState(topic_name="t", topic_id=topic_id, partition_states=[state])
        answer = await client.call(LeaderAndIsrRequest(controller_epoch=9, topic_states=[topic]))
        assert answer.topics[0].partition_errors[0].error_code == 0
        assert (await append(client, "t", batch(b"a"), acks=1)).error_code == 0
        request = produce("t", batch(b"b"))
        request.timeout_ms = 50
        answer = (await client.call(request)).responses[0].partition_responses[0]
        assert (answer.error_code, answer.base_offset) == (ErrorCode.REQUEST_TIMED_OUT, 1)
        fetched = (await client.call(fetch("t"), 12)).responses[0].partitions[0]
        assert (fetched.high_watermark, len(fetched.records)) == (0, 0)
        async with wire_client(broker.bootstrap_servers) as other:
            other.send(produce("t", batch(b"c")), 9)
            await until(lambda: broker.services.replicas.produces.size == 1, "the request waits")
        # who hangs up leaves nothing behind
        await until(lambda: broker.services.replicas.produces.size == 0, "nothing waits")
