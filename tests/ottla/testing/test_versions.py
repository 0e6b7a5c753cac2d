"""Version caps: clients meet a broker of an older release, and negotiate or say what it does not have."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from broker.authorization.rules import SENT_BY_BROKERS
from broker.requests.api_table import API_TABLE
from ottla import testing
from ottla.testing import versions
from protocol.api_keys import ApiKey
from protocol.messages.fetch import FetchRequest
from support.deadlines import DEADLINE_MS, DEADLINE_S
from support.kafka_python import BROKER_API_VERSIONS, KafkaConsumer, KafkaProducer
from support.wire import wire_client

ANNOUNCED = {release: {api.key: api.announced[2] for api in versions.apis_of(release)} for release in versions.RELEASES}


def release_of(version):
    return ".".join(str(part) for part in version)


@contextlib.asynccontextmanager
async def broker_of(release):
    async with testing.broker(version=release) as broker:
        yield broker.bootstrap_servers


# -- the table ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", versions.RELEASES)
def test_the_table_says_what_kafka_python_says(release):
    theirs = next(table for version, table in BROKER_API_VERSIONS.items() if release_of(version) == release)
    served = {int(api.key) for api in API_TABLE}
    expected = {key: highest for key, (_, highest) in theirs.items() if key in served}
    assert {int(key): highest for key, highest in ANNOUNCED[release].items()} == expected


def test_the_newest_release_has_what_kafka_announced(reference_ranges):
    assert ANNOUNCED["3.9"] == {key: highest for key, highest in reference_ranges.items() if key in ANNOUNCED["3.9"]}


@pytest.fixture
def reference_ranges():
    from support.reference import REFERENCE

    rows = [line.split("\t") for line in (REFERENCE / "tables" / "api-versions.tsv").read_text().splitlines()[1:]]
    return {int(key): int(highest) for key, _, _, highest, *_ in rows}


def test_every_api_has_a_row_and_only_grows():
    assert set(versions.VERSIONS) == {api.key for api in API_TABLE}
    for rows in versions.VERSIONS.values():
        positions = [versions.RELEASES.index(release) for release in rows]
        assert positions == sorted(positions)
        assert list(rows.values()) == sorted(set(rows.values()))


def test_requests_between_brokers_are_served_in_all_versions():
    uncapped = {api.key: api.max_version for api in API_TABLE}
    for api in versions.apis_of("1.0"):
        assert (api.max_version == uncapped[api.key]) or api.key not in SENT_BY_BROKERS


def test_a_patch_release_is_its_minor_release():
    assert versions.apis_of("2.8.1") == versions.apis_of("2.8")
    assert versions.apis_of("0.11.0.2") == versions.apis_of("0.11")


@pytest.mark.parametrize("release", ["", "0.10", "4.0", "2", "2.9", "3.9-IV0", "newest"])
def test_other_releases_are_refused(release):
    with pytest.raises(ValueError, match=f"version '{release}': must be a Kafka release from 0.11 to 3.9"):
        versions.apis_of(release)


# -- clients -----------------------------------------------------------------------------------------------------------


def confluent_round_trip(servers):
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    producer.produce("confluent", b"one")
    assert producer.flush(DEADLINE_S) == 0
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe(["confluent"])
    try:
        values = [message.value() for message in consumer.consume(1, DEADLINE_S)]
        (committed,) = consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    assert (values, committed.offset) == ([b"one"], 1)


async def aiokafka_round_trip(servers):
    async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
        await producer.send_and_wait("aiokafka", b"one")
    async with AIOKafkaConsumer(
        "aiokafka", bootstrap_servers=servers, group_id="aiokafka", auto_offset_reset="earliest"
    ) as consumer:
        async with asyncio.timeout(DEADLINE_S):
            assert (await consumer.getone()).value == b"one"
        await consumer.commit()


def kafka_python_produces(servers):
    """Return the release that the client infers from the APIs."""
    producer = KafkaProducer(bootstrap_servers=servers)
    try:
        producer.send("kafka-python", b"one").get(DEADLINE_S)
        return release_of(producer.config["api_version"])
    finally:
        producer.close()


def kafka_python_consumes(servers):
    consumer = KafkaConsumer(
        "kafka-python",
        bootstrap_servers=servers,
        group_id="kafka-python",
        auto_offset_reset="earliest",
        consumer_timeout_ms=DEADLINE_MS,
    )
    try:
        assert next(consumer).value == b"one"
        consumer.commit()
    finally:
        consumer.close()


@pytest.mark.parametrize("release", ["0.11", "1.0", "2.0", "2.4", "2.8", "3.3"])
async def test_clients_produce_and_consume_in_a_group(release):
    async with broker_of(release) as servers:
        await asyncio.to_thread(confluent_round_trip, servers)
        await aiokafka_round_trip(servers)
        await asyncio.to_thread(kafka_python_produces, servers)
        await asyncio.to_thread(kafka_python_consumes, servers)


@pytest.mark.parametrize("release", versions.RELEASES)
async def test_kafka_python_infers_the_release(release):
    async with broker_of(release) as servers:
        assert await asyncio.to_thread(kafka_python_produces, servers) == release


async def test_a_client_reports_what_the_release_does_not_have():
    async with broker_of("2.2") as servers:
        admin = AdminClient({"bootstrap.servers": servers})
        resource = ConfigResource(ConfigResource.Type.BROKER, "0")
        resource.add_incremental_config(
            ConfigEntry("log.cleaner.threads", "1", incremental_operation=AlterConfigOpType.SET)
        )
        altered = admin.incremental_alter_configs([resource])[resource]  # since 2.3
        with pytest.raises(KafkaException) as refused:
            await asyncio.to_thread(altered.result, DEADLINE_S)
        assert refused.value.args[0].code() == KafkaError._UNSUPPORTED_FEATURE


async def test_transactions_of_the_first_release_that_has_them():
    async with (
        broker_of("0.11") as servers,
        asyncio.timeout(DEADLINE_S),
        AIOKafkaProducer(bootstrap_servers=servers, transactional_id="t") as producer,
        producer.transaction(),
    ):
        sent = await producer.send_and_wait("aiokafka", b"one")
    assert sent.offset == 0


async def test_a_version_that_is_not_announced_closes_the_connection():
    async with broker_of("2.0") as servers, wire_client(servers) as client:
        client.send(FetchRequest(), ANNOUNCED["2.0"][ApiKey.FETCH] + 1)
        assert await client.is_closed()


@pytest.mark.parametrize("release", ["0.11", "2.6", "3.0"])
def test_a_cluster_of_old_brokers_replicates_and_fails_over(release):
    with testing.cluster(3, {"min.insync.replicas": "2"}, version=release) as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        created = admin.create_topics([NewTopic("t", 1, 3)])["t"]
        created.result(DEADLINE_S)
        producer.produce("t", b"one")
        assert producer.flush(DEADLINE_S) == 0
        leader = admin.list_topics("t", DEADLINE_S).topics["t"].partitions[0].leader
        cluster.kill_broker(leader)
        producer.produce("t", b"two")
        assert producer.flush(DEADLINE_S) == 0
        cluster.start_broker(leader)  # the topic for offsets, which is created now, has three replicas
        consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["t"])
        try:
            assert [message.value() for message in consumer.consume(2, DEADLINE_S)] == [b"one", b"two"]
        finally:
            consumer.close()


def test_an_unknown_release_is_refused():
    with pytest.raises(ValueError, match=r"version '4\.0'"):
        testing.cluster(version="4.0")
    with pytest.raises(ValueError, match=r"version '4\.0'"):
        testing.broker(version="4.0")
