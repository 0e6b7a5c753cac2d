"""What survives a clean stop and SIGKILL: producers, offsets, start offsets, settings, topic ids, deletions."""

from __future__ import annotations

import contextlib
import time

import pytest

from protocol.error_codes import ErrorCode
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from protocol.messages.metadata import MetadataRequest
from protocol.record_batch import iter_batches
from support.broker import BrokerProcess
from support.deadlines import DEADLINE_MS
from support.transactions import TransactionalProducer
from support.wire import append, batch, create_topic, fetch, until_led, wire_client

WAYS = ["stop", "kill"]


async def restart(process: BrokerProcess, way: str) -> None:
    if way == "stop":
        assert process.stop() == 0
    else:
        process.kill()
    process.start()
    async with wire_client(process.bootstrap) as client:
        await until_led(client.call)


@contextlib.asynccontextmanager
async def running(tmp_path, **overrides):
    named = {name.replace("_", "."): value for name, value in overrides.items()}
    named.setdefault("auto.create.topics.enable", "false")
    with BrokerProcess(tmp_path / "data", named) as process:
        yield process


async def offset_of(client, topic, timestamp):
    asked = [ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])
    found = (await client.call(request)).topics[0].partitions[0]
    assert found.error_code == 0
    return found.offset


async def values(client, topic, offset):
    one = (await client.call(fetch(topic, offset), 12)).responses[0].partitions[0]
    assert one.error_code == 0
    return [record.value for each in iter_batches(one.records) for record in each.records()]


def from_producer(sequence, *content, producer_id=7, epoch=0):
    # Recent timestamps: who has not written for producer.id.expiration.ms is not read back from a snapshot.
    now_ms = time.time_ns() // 1_000_000
    return batch(*content, timestamp=now_ms, producer_id=producer_id, producer_epoch=epoch, sequence=sequence)


@pytest.mark.parametrize("way", WAYS)
async def test_producer_state_survives(tmp_path, way):
    async with running(tmp_path) as process:
        async with wire_client(process.bootstrap) as client:
            await create_topic(client, "t")
            for i in range(7):
                assert (await append(client, "t", from_producer(i, b"%d" % i))).base_offset == i
            assert (await append(client, "t", from_producer(0, b"x", producer_id=8, epoch=3))).base_offset == 7
        for _ in range(2):
            await restart(process, way)
            async with wire_client(process.bootstrap) as client:
                for i in range(2, 7):
                    again = await append(client, "t", from_producer(i, b"%d" % i))
                    # After a restart only the last batch of a producer is known from a snapshot, all from the log.
                    if again.error_code == 0:
                        assert again.base_offset == i
                    else:
                        assert i < 6
                        assert again.error_code in (45, 46)
                gap = await append(client, "t", from_producer(9, b"x"))
                assert gap.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                old = await append(client, "t", from_producer(1, b"x", producer_id=8, epoch=2))
                assert old.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
                assert await offset_of(client, "t", -1) == 8
        async with wire_client(process.bootstrap) as client:
            assert (await append(client, "t", from_producer(7, b"7"))).base_offset == 8


@pytest.mark.parametrize("way", WAYS)
async def test_an_open_transaction_stays_open(tmp_path, way):
    async with running(tmp_path) as process:
        async with wire_client(process.bootstrap) as client:
            await create_topic(client, "t")
            producer = TransactionalProducer(client.call, "x")
            await producer.begin()
            await producer.write("t", b"open")
            await append(client, "t", batch(b"later"))
        await restart(process, way)
        async with wire_client(process.bootstrap) as client:
            one = (await client.call(fetch("t", 0, isolation_level=1), 12)).responses[0].partitions[0]
            assert (one.error_code, one.high_watermark, one.last_stable_offset) == (0, 2, 0)
            assert len(one.records) == 0


@pytest.mark.parametrize("way", WAYS)
async def test_records_offsets_settings_and_ids_survive(tmp_path, way):
    async with running(tmp_path) as process:
        async with wire_client(process.bootstrap) as client:
            topic_id = await create_topic(client, "t", segment_bytes="300", retention_ms="-1")
            for i in range(30):
                assert (await append(client, "t", batch(b"%02d" % i, timestamp=1000 + i))).base_offset == i
            cut = [
                DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=11)]),
            ]
            answer = await client.call(DeleteRecordsRequest(topics=cut, timeout_ms=DEADLINE_MS))
            assert answer.topics[0].partitions[0].low_watermark == 11
            changed = AlterConfigsResource(
                resource_type=2,
                resource_name="t",
                configs=[AlterableConfig(name="max.message.bytes", config_operation=0, value="500")],
            )
            of_brokers = AlterConfigsResource(
                resource_type=4,
                resource_name="",
                configs=[AlterableConfig(name="log.retention.bytes", config_operation=0, value="12345")],
            )
            answer = await client.call(IncrementalAlterConfigsRequest(resources=[changed, of_brokers]))
            assert [one.error_code for one in answer.responses] == [0, 0]
            grown = [CreatePartitionsTopic(name="t", count=4, assignments=None)]
            answer = await client.call(CreatePartitionsRequest(topics=grown, timeout_ms=DEADLINE_MS))
            assert answer.results[0].error_code == 0
        await restart(process, way)
        async with wire_client(process.bootstrap) as client:
            (topic,) = (await client.call(MetadataRequest(topics=None))).topics
            assert (topic.name, topic.topic_id, len(topic.partitions)) == ("t", topic_id, 4)
            assert {one.leader_id for one in topic.partitions} == {0}
            # Kafka checkpoints start offsets once a minute and on a clean stop: a kill may bring records back.
            start = await offset_of(client, "t", -2)
            assert start == 11 if way == "stop" else 0 <= start <= 11
            assert await offset_of(client, "t", -1) == 30
            assert await offset_of(client, "t", 1020) == 20
            assert (await values(client, "t", 28))[-2:] == [b"28", b"29"]
            assert (await append(client, "t", batch(b"v" * 600))).error_code == ErrorCode.MESSAGE_TOO_LARGE
            assert (await append(client, "t", batch(b"30"))).base_offset == 30
            resources = [DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)]
            described = (await client.call(DescribeConfigsRequest(resources=resources))).results[0].configs
            found = {one.name: (one.value, one.config_source) for one in described}
            assert found["segment.bytes"] == ("300", 1)
            assert found["retention.ms"] == ("-1", 1)
            assert found["max.message.bytes"] == ("500", 1)
            assert found["retention.bytes"][0] == "12345"


@pytest.mark.parametrize("way", WAYS)
async def test_leader_epoch_stays_as_in_kafka(tmp_path, way):
    """A lone broker is back before a controller sees that it was away: there is no election."""
    async with running(tmp_path) as process:
        async with wire_client(process.bootstrap) as client:
            await create_topic(client, "t")
            await append(client, "t", batch(b"a", b"b"))
        await restart(process, way)
        async with wire_client(process.bootstrap) as client:
            (topic,) = (await client.call(MetadataRequest(topics=None))).topics
            assert topic.partitions[0].leader_epoch == 0
            await append(client, "t", batch(b"c"))
            one = (await client.call(fetch("t", 0, current_leader_epoch=0), 12)).responses[0].partitions[0]
            assert {each.partition_leader_epoch for each in iter_batches(one.records)} == {0}
    assert (tmp_path / "data" / "t-0" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


@pytest.mark.parametrize("way", WAYS)
async def test_deleted_topics_stay_deleted_and_ids_are_new(tmp_path, way):
    async with running(tmp_path) as process:
        async with wire_client(process.bootstrap) as client:
            first = await create_topic(client, "t", retention_ms="5000")
            await append(client, "t", batch(b"old"))
            request = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=DEADLINE_MS)
            assert (await client.call(request)).responses[0].error_code == 0
        await restart(process, way)
        async with wire_client(process.bootstrap) as client:
            assert (await client.call(MetadataRequest(topics=None))).topics == []
            second = await create_topic(client, "t")
            assert second != first
            assert await values(client, "t", 0) == []
        await restart(process, way)
        async with wire_client(process.bootstrap) as client:
            (topic,) = (await client.call(MetadataRequest(topics=None))).topics
            assert topic.topic_id == second
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
            assert (await client.call(request)).error_code == 0


async def test_topic_created_just_before_a_kill(tmp_path):
    """What was answered is there; what was under way is there or not, but never in between."""
    async with running(tmp_path) as process:
        ids = {}
        for i in range(5):
            async with wire_client(process.bootstrap) as client:
                ids[f"t{i}"] = await create_topic(client, f"t{i}", partitions=3)
                client.send(MetadataRequest(topics=None), 12)
            await restart(process, "kill")
        async with wire_client(process.bootstrap) as client:
            topics = (await client.call(MetadataRequest(topics=None))).topics
            assert {topic.name: topic.topic_id for topic in topics} == ids
            for topic in ids:
                for partition in range(3):
                    assert (await append(client, topic, batch(b"v"), partition)).base_offset == 0
