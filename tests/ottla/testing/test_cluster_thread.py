"""Clusters in a thread of this process: their brokers are stopped, killed, paused and started like processes."""

import asyncio
import socket
import threading

import pytest
from confluent_kafka import Consumer, Producer

from ottla import Admin, ConfigChange, NewTopic, ResourceType, testing
from ottla.errors import InvalidReplicationFactorError, TopicExistsError, UnknownTopicOrPartitionError
from support.deadlines import DEADLINE_S
from support.polling import until_blocking


@pytest.fixture(scope="module")
def cluster():
    with testing.cluster(3) as running:
        yield running


@pytest.fixture
def topic(cluster, request):
    """A topic with a replica on every broker."""
    name = request.node.name

    async def create():
        async with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            await admin.create_topics([NewTopic(name, assignment={0: [2, 1, 3]})])

    asyncio.run(create())
    until_blocking(lambda: leader(cluster, name) == 2, "broker 2 leads the topic")
    return name


def leader(cluster, topic):
    """The leader in the metadata of the other brokers; None if they differ."""
    known = {
        getattr(member.broker.metadata.snapshot.partition(topic, 0), "leader", None)
        for member in cluster.brokers.values()
        if member.state.value == "running"
    }
    return known.pop() if len(known) == 1 else None


def produce(cluster, topic, *values):
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(2 * DEADLINE_S) == 0


def consume(cluster, topic, count):
    options = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(options)
    consumer.subscribe([topic])
    try:
        return [message.value() for message in consumer.consume(count, 2 * DEADLINE_S)]
    finally:
        consumer.close()


def whole(cluster):
    """Whether every broker runs and knows the others."""
    return all(
        member.broker is not None and set(member.broker.metadata.snapshot.brokers) == set(cluster.brokers)
        for member in cluster.brokers.values()
    )


def in_sync(cluster, topic):
    state = cluster.brokers[1].broker.metadata.snapshot.partition(topic, 0)
    return set(state.isr) == {1, 2, 3}


def test_brokers_have_ids_ports_and_directories_of_their_own(cluster):
    assert list(cluster.brokers) == [1, 2, 3]
    servers = [member.bootstrap_servers for member in cluster.brokers.values()]
    assert cluster.bootstrap_servers == ",".join(servers)
    assert len(set(servers)) == 3
    assert cluster.brokers[2].log_dirs == [str(cluster.directory / "broker-2")]
    with pytest.raises(ValueError, match="no broker 4; the brokers are 1, 2, 3"):
        cluster.stop_broker(4)


def test_a_killed_leader_is_replaced_and_comes_back_on_its_port(cluster, topic):
    produce(cluster, topic, b"one")
    member = cluster.brokers[2]
    servers = member.bootstrap_servers
    cluster.kill_broker(2)
    assert member.broker is None
    assert not (cluster.directory / "broker-2" / ".kafka_cleanshutdown").exists()
    until_blocking(lambda: leader(cluster, topic) in (1, 3), "another broker leads")
    produce(cluster, topic, b"two")
    cluster.start_broker(2)
    assert member.bootstrap_servers == servers
    until_blocking(lambda: whole(cluster), "the cluster is whole")
    until_blocking(lambda: in_sync(cluster, topic), "the replicas are in sync")
    assert consume(cluster, topic, 2) == [b"one", b"two"]


def test_a_broker_that_is_killed_and_started_at_once(cluster, topic):
    """Its old session has not expired then: it proves that the session is its own."""
    produce(cluster, topic, b"one")
    cluster.kill_broker(2)
    cluster.start_broker(2)
    until_blocking(lambda: whole(cluster), "the cluster is whole")
    assert consume(cluster, topic, 1) == [b"one"]


def test_a_stopped_broker_hands_over_and_its_port_is_kept(cluster, topic):
    produce(cluster, topic, b"one")
    cluster.stop_broker(2)
    until_blocking(lambda: leader(cluster, topic) in (1, 3), "another broker leads")
    assert (cluster.directory / "broker-2" / ".kafka_cleanshutdown").exists()
    host, _, port = cluster.brokers[2].bootstrap_servers.rpartition(":")
    with socket.socket() as client:
        assert client.connect_ex((host, int(port))) != 0
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((host, int(port)))
    with pytest.raises(RuntimeError, match="broker 2 is stopped, it must be running"):
        cluster.pause_broker(2)
    cluster.start_broker(2)
    until_blocking(lambda: whole(cluster), "the cluster is whole")


def test_a_paused_broker_accepts_but_answers_nothing_and_is_replaced(cluster, topic):
    produce(cluster, topic, b"one")
    cluster.pause_broker(2)
    host, _, port = cluster.brokers[2].bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), DEADLINE_S) as client:  # the system accepts
        client.sendall(bytes.fromhex("0000000e0012000000000001000461736b73"))  # ApiVersions
        until_blocking(lambda: leader(cluster, topic) in (1, 3), "another broker leads")
        client.setblocking(False)
        with pytest.raises(BlockingIOError):
            client.recv(4)
        produce(cluster, topic, b"two")
        client.settimeout(DEADLINE_S)
        cluster.resume_broker(2)
        assert int.from_bytes(client.recv(4)) > 100  # it had been kept for it
    until_blocking(lambda: whole(cluster), "the cluster is whole")
    until_blocking(lambda: in_sync(cluster, topic), "the replicas are in sync")
    assert consume(cluster, topic, 2) == [b"one", b"two"]


def test_a_paused_broker_can_be_killed(cluster):
    cluster.pause_broker(3)
    cluster.kill_broker(3)
    cluster.start_broker(3)
    until_blocking(lambda: whole(cluster), "the cluster is whole")


def test_topics_are_created_and_deleted_without_a_client(cluster):
    cluster.create_topic("made", partitions=3, replication_factor=2, configs={"retention.ms": "1000"})
    for member in cluster.brokers.values():
        partitions = member.broker.metadata.snapshot.topics["made"].partitions
        assert [len(partition.replicas) for partition in partitions.values()] == [2, 2, 2]
    assert cluster.brokers[1].broker.services.configs.topic_config("made").retention_ms == 1000
    with pytest.raises(TopicExistsError, match="create topic made"):
        cluster.create_topic("made")
    with pytest.raises(InvalidReplicationFactorError):
        cluster.create_topic("other", replication_factor=4)
    cluster.delete_topic("made")
    until_blocking(lambda: "made" not in cluster.brokers[2].broker.metadata.snapshot.topics, "the topic is deleted")
    with pytest.raises(UnknownTopicOrPartitionError, match="delete topic other"):
        cluster.delete_topic("other")


def test_a_cluster_is_restored_and_reset(cluster):
    """After reset there are no topics, groups, quotas or dynamic settings; ports stay."""
    produce(cluster, "orders", b"one")
    assert consume(cluster, "orders", 1) == [b"one"]
    servers = cluster.bootstrap_servers
    cluster.kill_broker(1)
    cluster.pause_broker(2)
    cluster.restore()
    until_blocking(lambda: whole(cluster), "the cluster is whole")

    async def change():
        async with Admin(bootstrap_servers=servers) as admin:
            await admin.incremental_alter_configs(ResourceType.BROKER, "", [ConfigChange("log.retention.ms", "5000")])

    async def described():
        async with Admin(bootstrap_servers=servers) as admin:
            settings = await admin.describe_configs(ResourceType.BROKER, "")
            topics = await admin.list_topics(include_internal=True)
            return topics, await admin.list_groups(), settings

    asyncio.run(change())
    cluster.stop_broker(3)
    cluster.reset()
    until_blocking(lambda: whole(cluster), "the cluster is whole")
    assert cluster.bootstrap_servers == servers
    topics, groups, settings = asyncio.run(described())
    assert (topics, groups) == ([], [])
    assert "5000" not in str(settings)
    produce(cluster, "orders", b"two")
    assert consume(cluster, "orders", 1) == [b"two"]


def test_paused_brokers_whose_sessions_have_expired_are_registered_again_by_restore(cluster):
    def registered():
        return [cluster._store.tree.get(f"/brokers/ids/{broker_id}") is not None for broker_id in cluster.brokers]

    for broker_id in cluster.brokers:
        cluster.pause_broker(broker_id)
    until_blocking(lambda: not any(registered()), "the sessions have expired")
    cluster.restore()  # their metadata still has all of them
    assert all(registered())
    until_blocking(lambda: whole(cluster), "the cluster is whole")


def test_connections_of_a_paused_broker_can_be_cut(cluster):
    host, port = cluster.brokers[2].bootstrap_servers.split(":")
    with socket.create_connection((host, int(port))) as client:
        until_blocking(lambda: of_client(cluster, client), "the broker has accepted it")
        cluster.pause_broker(2)
        cluster.faults.cut(broker=2)
        cluster.resume_broker(2)
        client.settimeout(DEADLINE_S)
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    until_blocking(lambda: whole(cluster), "the cluster is whole")


def of_client(cluster, client):
    """The broker's end of a connection."""
    connections = cluster.brokers[2].broker.acceptors["PLAINTEXT"].connections
    return [one for one in list(connections) if one.port == client.getsockname()[1]]


def test_a_directory_that_was_named_is_emptied_by_reset(tmp_path):
    with testing.broker(directory=tmp_path) as broker:
        broker.create_topic("orders")
        assert (tmp_path / "orders-0").exists()
        broker.reset()
        assert not (tmp_path / "orders-0").exists()
        broker.create_topic("orders")


def test_call_runs_on_the_loop_of_the_cluster(cluster):
    async def names(suffix, *, times):
        return [threading.current_thread().name + suffix] * times

    assert cluster.call(names, "!", times=2) == ["ottla-cluster!"] * 2

    async def calls():
        cluster.stop_broker(1)

    with pytest.raises(RuntimeError, match="await the coroutine"):
        cluster.call(calls)


def test_arguments_that_are_refused():
    with pytest.raises(ValueError, match="at least one broker, not 0"):
        testing.cluster(0)
    with pytest.raises(ValueError, match=r"log\.dirs cannot be set here"):
        testing.cluster(2, {"log.dirs": "/tmp/x"})
    with pytest.raises(ValueError, match="settings_of names broker 3; the brokers are 1 to 2"):
        testing.cluster(2, settings_of={3: {"broker.rack": "c"}})


def test_a_named_directory_is_kept_and_settings_of_one_broker(tmp_path):
    kept = testing.cluster(2, settings_of={2: {"broker.rack": "west"}}, directory=tmp_path / "kept")
    with pytest.raises(RuntimeError, match="the cluster does not run"):
        _ = kept.bootstrap_servers
    with kept:
        assert kept.brokers[1].broker.metadata.snapshot.brokers[2].rack == "west"
        produce(kept, "orders", b"one")
    with kept:
        assert consume(kept, "orders", 1) == [b"one"]
    assert (tmp_path / "kept" / "registry.sqlite").exists()


def test_nothing_is_left(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = threading.enumerate()
    with testing.cluster(2) as cluster:
        produce(cluster, "orders", b"one")
        cluster.kill_broker(1)
    assert list(tmp_path.iterdir()) == []
    assert set(threading.enumerate()) <= set(before)
