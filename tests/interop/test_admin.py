"""Topics and their settings through each client's own admin."""

import asyncio
import warnings

import pytest

from support.broker import broker_process
from support.deadlines import DEADLINE_S
from support.kafka_clients import CLIENTS, Sent, kafka, kcat
from support.polling import until_blocking

RECORDS = [Sent(0, b"k", b"%d" % number) for number in range(10)]


def write_ten(broker, topic):
    CLIENTS[0].produce(broker.bootstrap, topic, RECORDS, "none", idempotent=True)


def test_confluent_kafka(broker):
    from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        NewPartitions,
        NewTopic,
        OffsetSpec,
        ResourceType,
    )

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = NewTopic("by-confluent", 2, 1, config={"retention.ms": "1000000"})
    assert admin.create_topics([topic], validate_only=True)["by-confluent"].result(DEADLINE_S) is None
    assert "by-confluent" not in admin.list_topics(timeout=DEADLINE_S).topics
    admin.create_topics([topic])["by-confluent"].result(DEADLINE_S)
    with pytest.raises(KafkaException) as raised:
        admin.create_topics([topic])["by-confluent"].result(DEADLINE_S)
    assert raised.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    with pytest.raises(KafkaException) as raised:
        admin.create_topics([NewTopic("bad", 1, 1, config={"retention.ms": "soon"})])["bad"].result(DEADLINE_S)
    assert raised.value.args[0].code() == KafkaError.INVALID_CONFIG
    admin.create_partitions([NewPartitions("by-confluent", 5)])["by-confluent"].result(DEADLINE_S)
    described = admin.describe_topics(TopicCollection(["by-confluent"]))["by-confluent"].result(DEADLINE_S)
    assert len(described.partitions) == 5
    cluster = admin.describe_cluster().result(DEADLINE_S)
    assert [node.id for node in cluster.nodes] == [cluster.controller.id] == [0]

    resource = ConfigResource(ResourceType.TOPIC, "by-confluent")
    before = admin.describe_configs([resource])[resource].result(DEADLINE_S)
    assert before["retention.ms"].value == "1000000"
    assert not before["retention.ms"].is_default
    assert before["segment.bytes"].is_default
    entry = ConfigEntry("segment.bytes", "2000000", incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(entry)
    admin.incremental_alter_configs([resource])[resource].result(DEADLINE_S)
    after = admin.describe_configs([resource])[resource].result(DEADLINE_S)
    assert (after["segment.bytes"].value, after["retention.ms"].value) == ("2000000", "1000000")
    node = ConfigResource(ResourceType.BROKER, "0")
    assert admin.describe_configs([node])[node].result(DEADLINE_S)["num.partitions"].value == "1"

    write_ten(broker, "by-confluent")
    first = TopicPartition("by-confluent", 0, 4)
    assert admin.delete_records([first])[first].result(DEADLINE_S).low_watermark == 4
    spec = {TopicPartition("by-confluent", 0): OffsetSpec.earliest()}
    assert [future.result(DEADLINE_S).offset for future in admin.list_offsets(spec).values()] == [4]
    spec = {TopicPartition("by-confluent", 0): OffsetSpec.latest()}
    assert [future.result(DEADLINE_S).offset for future in admin.list_offsets(spec).values()] == [10]
    admin.delete_topics(["by-confluent"])["by-confluent"].result(DEADLINE_S)
    assert "by-confluent" not in admin.list_topics(timeout=DEADLINE_S).topics


def test_confluent_kafka_replaces_all_settings(broker):
    from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("replaced", 1, 1, config={"retention.ms": "1000000"})])["replaced"].result(DEADLINE_S)
    resource = ConfigResource(ResourceType.TOPIC, "replaced", set_config={"segment.bytes": "2000000"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the call is deprecated; brokers serve it nevertheless
        admin.alter_configs([resource])[resource].result(DEADLINE_S)
    after = admin.describe_configs([resource])[resource].result(DEADLINE_S)
    assert (after["segment.bytes"].value, after["retention.ms"].value) == ("2000000", "604800000")


def test_kafka_python_moves_replicas_between_log_directories(tmp_path):
    with broker_process(tmp_path / "broker", log_dirs=f"{tmp_path}/a,{tmp_path}/b") as broker:
        admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
        try:
            admin.create_topics([kafka.admin.NewTopic("moved", 1, 1)])
            write_ten(broker, "moved")

            def places():
                (answer,) = admin.describe_log_dirs()
                return {
                    one["log_dir"]: partition["is_future_key"]
                    for one in answer["log_dirs"]
                    for topic in one["topics"]
                    for partition in topic["partitions"]
                    if topic["name"] == "moved"
                }

            (source,) = places()
            target = next(f"{tmp_path}/{name}" for name in "ab" if not source.endswith(name))
            outcomes = admin.alter_replica_log_dirs({("moved", 0, 0): target})
            assert [error.errno for error in outcomes.values()] == [0]
            until_blocking(lambda: places() == {target: False}, "it is moved")
            outcomes = admin.alter_replica_log_dirs({("moved", 0, 0): "/nowhere"})
            assert [error.errno for error in outcomes.values()] == [57]
        finally:
            admin.close()
        assert CLIENTS[0].consume(broker.bootstrap, "moved", [len(RECORDS)]) == RECORDS


def test_kafka_python(broker):
    from kafka.admin import ConfigResource, ConfigResourceType, NewTopic

    admin = kafka.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    admin.create_topics([NewTopic("by-kafka-python", 2, 1, topic_configs={"retention.ms": "1000000"})])
    with pytest.raises(kafka.errors.TopicAlreadyExistsError):
        admin.create_topics([NewTopic("by-kafka-python", 2, 1)])
    assert "by-kafka-python" in admin.list_topics()
    admin.create_partitions({"by-kafka-python": 5})
    assert len(admin.describe_topics(["by-kafka-python"])[0]["partitions"]) == 5
    assert len(admin.describe_cluster()["brokers"]) == 1
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "by-kafka-python", {"segment.bytes": "2000000"})])
    resource = ConfigResource(ConfigResourceType.TOPIC, "by-kafka-python")
    described = str(admin.describe_configs([resource]))
    assert "2000000" in described
    assert "1000000" in described
    write_ten(broker, "by-kafka-python")
    partition = kafka.TopicPartition("by-kafka-python", 0)
    assert admin.delete_records({partition: 4})[partition]["low_watermark"] == 4
    consumer = kafka.KafkaConsumer(bootstrap_servers=broker.bootstrap)
    assert consumer.beginning_offsets([partition]) == {partition: 4}
    assert consumer.end_offsets([partition]) == {partition: 10}
    consumer.close()
    admin.delete_topics(["by-kafka-python"])
    assert "by-kafka-python" not in admin.list_topics()
    admin.close()


def test_aiokafka(broker):
    asyncio.run(use_aiokafka(broker))


async def use_aiokafka(broker):
    from aiokafka import AIOKafkaConsumer, TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
    from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap)
    await admin.start()
    topic = NewTopic("by-aiokafka", 2, 1, topic_configs={"retention.ms": "1000000"})
    assert [error[1] for error in (await admin.create_topics([topic])).topic_errors] == [0]
    assert [error[1] for error in (await admin.create_topics([topic])).topic_errors] == [36]
    assert "by-aiokafka" in await admin.list_topics()
    await admin.create_partitions({"by-aiokafka": NewPartitions(5)})
    assert len((await admin.describe_topics(["by-aiokafka"]))[0]["partitions"]) == 5
    assert len((await admin.describe_cluster())["brokers"]) == 1
    resource = ConfigResource(ConfigResourceType.TOPIC, "by-aiokafka", {"segment.bytes": "2000000"})
    await admin.alter_configs([resource])
    asked = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, "by-aiokafka")])
    values = {entry[0]: entry[1] for entry in asked[0].resources[0][4]}
    assert values["segment.bytes"] == "2000000"
    assert values["retention.ms"] == "604800000"  # its AlterConfigs replaces all
    write_ten(broker, "by-aiokafka")
    partition = TopicPartition("by-aiokafka", 0)
    assert await admin.delete_records({partition: RecordsToDelete(4)}) == {partition: 4}
    consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap)
    await consumer.start()
    assert await consumer.beginning_offsets([partition]) == {partition: 4}
    assert await consumer.end_offsets([partition]) == {partition: 10}
    await consumer.stop()
    await admin.delete_topics(["by-aiokafka"])
    assert "by-aiokafka" not in await admin.list_topics()
    await admin.close()


def test_kcat_lists_and_looks_up_offsets(broker):
    import json

    write_ten(broker, "by-kcat")
    listed = json.loads(kcat(broker.bootstrap, "-L", "-J", "-t", "by-kcat"))
    assert [broker_["id"] for broker_ in listed["brokers"]] == [0]
    assert [len(topic["partitions"]) for topic in listed["topics"]] == [1]
    assert kcat(broker.bootstrap, "-Q", "-t", "by-kcat:0:-1").strip() == b"by-kcat [0] offset 10"
    assert kcat(broker.bootstrap, "-Q", "-t", "by-kcat:0:-2").strip() == b"by-kcat [0] offset 0"
    shown = kcat(broker.bootstrap, "-C", "-t", "by-kcat", "-o", "-3", "-e", "-f", "%o ")
    assert shown == b"7 8 9 "
