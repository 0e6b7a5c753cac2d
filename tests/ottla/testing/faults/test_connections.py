"""The verbs for connections, as clients of librdkafka and aiokafka meet them."""

import asyncio
import contextlib
import gc
import re
import socket
import struct

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError

from ottla import testing
from ottla.testing.faults.connections import BlackholeFault, CutFault, DelayFault, ThrottleFault
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.link import Link
from support.deadlines import DEADLINE_S
from support.faulty_cluster import SeenProducer, consume, create_topic, isr_of, leader_of
from support.heap import instances
from support.polling import until_blocking
from support.tls_listening import tls_settings

API_VERSIONS = struct.pack(">ihhih4s", 14, 18, 0, 1, 4, b"link")
"""A request of the client "link"."""
SETTINGS = {"replica.lag.time.max.ms": "1000", "replica.socket.timeout.ms": "2000"}


@pytest.fixture(scope="module")
def cluster():
    with testing.cluster(3, SETTINGS) as running:
        yield running


@pytest.fixture(autouse=True)
def healed(cluster):
    yield
    cluster.faults.heal_all()


def test_cut_connections_are_opened_again(cluster):
    topic = create_topic(cluster, "cut", [1])
    producer = SeenProducer(cluster.bootstrap_servers, client_id="cut-me")
    other = SeenProducer(cluster.bootstrap_servers, client_id="not-me")
    assert producer.deliver(topic, b"one") == (None, 0)
    assert other.deliver(topic, b"two") == (None, 1)
    before = other.disconnects_now()
    fault = cluster.faults.cut(client_id="cut-me")
    assert fault.did["connections"] > 0
    assert fault.state is None
    producer.until(lambda: producer.disconnects >= fault.did["connections"], "the producer has lost its connections")
    assert producer.deliver(topic, b"three") == (None, 2)
    assert other.deliver(topic, b"four") == (None, 3)
    assert other.disconnects_now() == before


def test_refused_connections_fail_and_come_back(cluster):
    topic = create_topic(cluster, "refuse", [1])
    assert SeenProducer(cluster.bootstrap_servers).deliver(topic, b"one") == (None, 0)
    with cluster.faults.refuse():
        producer = SeenProducer(cluster.bootstrap_servers, message_timeout_ms=1000)
        assert producer.deliver(topic, b"lost") == ("_MSG_TIMED_OUT", None)
        producer.until(lambda: "_ALL_BROKERS_DOWN" in producer.errors, "the producer reports that all brokers are down")
        host, _, port = cluster.brokers[1].bootstrap_servers.partition(":")
        with pytest.raises(ConnectionError), socket.create_connection((host, int(port)), DEADLINE_S) as client:
            client.recv(1)
    assert SeenProducer(cluster.bootstrap_servers).deliver(topic, b"two") == (None, 1)


def test_refuse_may_keep_connections_and_choose_a_broker(cluster):
    topic = create_topic(cluster, "keep", [1])
    producer = SeenProducer(cluster.bootstrap_servers)
    assert producer.deliver(topic, b"one") == (None, 0)
    fault = cluster.faults.refuse(broker=1, keep=True)
    assert fault.did == {"connections": 0}
    assert producer.deliver(topic, b"two") == (None, 1)

    async def start():
        client = AIOKafkaProducer(bootstrap_servers=cluster.brokers[1].bootstrap_servers)
        try:
            await client.start()
        finally:
            await client.stop()

    with pytest.raises(KafkaConnectionError):
        asyncio.run(start())
    fault.heal()
    asyncio.run(start())


@pytest.mark.parametrize(
    "inject",
    [
        lambda faults: faults.blackhole(client_id="slow"),
        lambda faults: faults.blackhole(client_id="slow", direction="to"),
        lambda faults: faults.blackhole(client_id="slow", direction="from"),
        lambda faults: faults.delay(3600, client_id="slow"),
        lambda faults: faults.throttle(0.1, client_id="slow"),
    ],
    ids=["blackhole", "blackhole-to", "blackhole-from", "delay", "throttle"],
)
def test_a_client_times_out_and_recovers(cluster, inject, request):
    topic = create_topic(cluster, f"time-{request.node.callspec.id}", [1])
    settings = {"socket_timeout_ms": 500, "request_timeout_ms": 500, "message_timeout_ms": 600_000}
    producer = SeenProducer(cluster.bootstrap_servers, client_id="slow", enable_idempotence=True, **settings)
    other = SeenProducer(cluster.bootstrap_servers, client_id="quick")
    assert producer.deliver(topic, b"one") == (None, 0)
    with inject(cluster.faults):
        producer.send(topic, b"two")
        producer.until(lambda: "_TIMED_OUT" in producer.errors or producer.disconnects, "a request has timed out")
        assert len(producer.reports) == 1
        assert other.deliver(topic, b"other")[0] is None
    producer.until(lambda: len(producer.reports) == 2, "the message is delivered")
    assert producer.reports[1][0] is None
    assert sorted(consume(cluster.bootstrap_servers, topic, 3)) == [b"one", b"other", b"two"]


def test_what_was_sent_into_a_blackhole_arrives_when_it_is_healed(cluster):
    topic = create_topic(cluster, "arrives", [1])

    async def run():
        async with AIOKafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await producer.send_and_wait(topic, b"one")
            with cluster.faults.blackhole(broker=1):
                sending = await producer.send(topic, b"two" * 50_000)
                await asyncio.wait([sending], timeout=0.05)
                assert not sending.done()
            return (await sending).offset

    assert asyncio.run(run()) == 1


def test_a_blackhole_does_not_close_connections(cluster):
    host, _, port = cluster.bootstrap_servers.split(",")[0].partition(":")
    with socket.create_connection((host, int(port)), DEADLINE_S) as client, client.makefile("rb") as answers:

        def answer():
            return answers.read(int.from_bytes(answers.read(4)))

        client.sendall(API_VERSIONS)
        before = answer()
        with cluster.faults.blackhole():
            client.sendall(API_VERSIONS)
        assert answer() == before != b""


def test_small_delays_and_rates_only_slow_a_client_down(cluster):
    topic = create_topic(cluster, "slow", [1])
    values = [bytes([number]) * 20_000 for number in range(20)]
    with cluster.faults.delay(0.01), cluster.faults.throttle(2_000_000):
        producer = SeenProducer(cluster.bootstrap_servers)
        for value in values:
            producer.send(topic, value)
        producer.until(lambda: len(producer.reports) == 20, "all messages are delivered")
        assert consume(cluster.bootstrap_servers, topic, 20) == values
    assert consume(cluster.bootstrap_servers, topic, 20, group_id="again") == values


def test_a_follower_that_is_cut_off_leaves_the_isr_and_comes_back(cluster):
    controller = cluster.brokers[1].broker.metadata.snapshot.controller_id
    leader, follower = {1, 2, 3} - {controller}
    topic = create_topic(cluster, "isr", [leader, follower, controller], min_insync_replicas="3")
    until_blocking(lambda: isr_of(cluster, topic) == {1, 2, 3}, "all replicas are in sync")
    assert SeenProducer(cluster.bootstrap_servers).deliver(topic, b"one") == (None, 0)
    unsafe = SeenProducer(cluster.bootstrap_servers, acks=1)
    with cluster.faults.blackhole(broker=leader, peer=follower):
        assert unsafe.deliver(topic, b"not replicated") == (None, 1)  # a follower that lacks nothing stays in sync
        until_blocking(lambda: isr_of(cluster, topic) == {leader, controller}, "the follower is not in sync")
        producer = SeenProducer(cluster.bootstrap_servers, message_timeout_ms=1000)
        assert producer.deliver(topic, b"two")[0] in ("_MSG_TIMED_OUT", "NOT_ENOUGH_REPLICAS")
    until_blocking(lambda: isr_of(cluster, topic) == {1, 2, 3}, "all replicas are in sync")
    assert SeenProducer(cluster.bootstrap_servers).deliver(topic, b"three")[0] is None


def test_clients_see_nothing_of_faults_between_brokers(cluster):
    topic = create_topic(cluster, "peers", [2])
    producer = SeenProducer(cluster.bootstrap_servers)
    assert producer.deliver(topic, b"one") == (None, 0)
    before = producer.disconnects_now()
    assert cluster.faults.cut(peers=True).did["connections"] > 0
    with cluster.faults.refuse(broker=2, peer=3, keep=True), cluster.faults.delay(0.01, peers=True):
        assert producer.deliver(topic, b"two") == (None, 1)
    assert producer.disconnects_now() == before


def read_all(client):
    while client.recv(4096):
        pass


def first_request(cluster, client_id):
    """A connection that has sent a request: ApiVersions, which is answered."""
    host, _, port = cluster.brokers[1].bootstrap_servers.partition(":")
    client = socket.create_connection((host, int(port)), DEADLINE_S)
    name = client_id.encode()
    client.sendall(struct.pack(">ihhih", 10 + len(name), 18, 0, 1, len(name)) + name)
    return client


def test_a_blackhole_for_a_number_of_connections(cluster):
    with contextlib.ExitStack() as stack:

        def connect(client_id="counted"):
            return stack.enter_context(first_request(cluster, client_id))

        before = connect()
        assert before.recv(4)
        fault = cluster.faults.blackhole(client_id="counted", count=2)
        assert fault.did == {"connections": 1}
        held = connect()
        until_blocking(lambda: fault.state["uses"] == 2, "the second connection counts")
        free = connect()
        assert free.recv(4)
        assert connect("other").recv(4)
        assert fault.state["left"] == 0
        before.close()
        held.settimeout(0)
        with pytest.raises(BlockingIOError):
            held.recv(1)
        assert fault.state is not None  # the second connection is open
        held.close()
        until_blocking(lambda: fault.state is None, "the fault is healed when both are closed")


def test_healing_releases_counted_connections(cluster):
    with cluster.faults.blackhole(client_id="released", count=1) as fault, first_request(cluster, "released") as client:
        until_blocking(lambda: fault.state["uses"] == 1, "the connection counts")
        fault.heal()
        assert client.recv(4)


def test_refuse_and_cut_a_number_of_connections(cluster):
    fault = cluster.faults.refuse(client_id="counted", count=2)
    for _ in range(2):
        with first_request(cluster, "counted") as client, pytest.raises(ConnectionError):
            client.recv(1)
    until_blocking(lambda: fault.state is None, "the fault is over")
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(first_request(cluster, "counted")) for _ in range(3)]
        assert all(client.recv(4) for client in clients)
        assert cluster.faults.cut(client_id="counted", count=2).did == {"connections": 2}
        for client in clients[:2]:
            with pytest.raises(ConnectionError):
                read_all(client)
        clients[2].settimeout(0)
        with contextlib.suppress(BlockingIOError):
            assert clients[2].recv(4096)
    with pytest.raises(FaultError, match="count=0: must be 1 or more"):
        CutFault(count=0)


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", bytes(2), bytes(20)])
def test_what_is_not_kafkas_protocol_reaches_the_broker(cluster, data):
    """The broker closes such a connection; a frame that does not go on is closed by the client."""
    host, _, port = cluster.brokers[1].bootstrap_servers.partition(":")
    with socket.create_connection((host, int(port)), DEADLINE_S) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: CutFault(peer=1), "peer=1: needs broker"),
        (lambda: CutFault(broker=1, peer=1), "must not be the same as broker"),
        (lambda: CutFault(client_id="a", peers=True), "client_id excludes peers and peer"),
        (lambda: DelayFault(delay_s=0), "delay_s=0: must be above 0"),
        (lambda: ThrottleFault(bytes_per_s=-1), "bytes_per_s=-1: must be above 0"),
        (lambda: BlackholeFault(peers=True, direction="to"), "direction=to: needs broker between brokers"),
    ],
)
def test_options_are_checked(cluster, make, text):
    with pytest.raises(FaultError, match=text):
        make()
    with pytest.raises(FaultError, match="broker=9"):
        cluster.faults.cut(broker=9)


# -- TLS ---------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A cluster whose connections are encrypted, those between brokers, too."""
    folder = tmp_path_factory.mktemp("tls")
    listeners = {"listeners": "SSL://127.0.0.1:0", "security.inter.broker.protocol": "SSL"}
    with testing.cluster(3, SETTINGS | listeners | tls_settings(folder)) as running:
        running.client_settings = {"security_protocol": "SSL", "ssl_ca_location": str(folder / "ca.pem")}
        yield running


@pytest.fixture
def tls_topic(secured, request):
    """A topic on all brokers, which the first one leads."""
    name = re.sub(r"\W+", "-", request.node.name).strip("-")
    secured.create_topic(name, partitions=1, replication_factor=3)
    leader = leader_of(secured, name)
    if leader != 1:
        until_blocking(lambda: isr_of(secured, name) == {1, 2, 3}, "all replicas are in sync")
        secured.faults.move_leader(name, to=1)
    yield name
    secured.faults.heal_all()


def tls_producer(cluster, topic, **settings):
    producer = SeenProducer(cluster.bootstrap_servers, enable_idempotence=True, **cluster.client_settings, **settings)
    assert producer.deliver(topic, b"one") == (None, 0)
    return producer


def test_tls_connections_are_cut(secured, tls_topic):
    producer = tls_producer(secured, tls_topic, client_id="cut-me")
    fault = secured.faults.cut(client_id="cut-me")
    assert fault.did["connections"] > 0
    producer.until(lambda: producer.disconnects >= fault.did["connections"], "the producer has lost its connections")
    assert secured.faults.cut(peers=True).did["connections"] > 0
    assert producer.deliver(tls_topic, b"two") == (None, 1)


def test_tls_connections_are_refused(secured, tls_topic):
    producer = tls_producer(secured, tls_topic, client_id="refuse-me")
    with secured.faults.refuse(client_id="refuse-me"):
        producer.send(tls_topic, b"two")
        producer.until(lambda: "_ALL_BROKERS_DOWN" in producer.errors, "the producer reports that all brokers are down")
        assert len(producer.reports) == 1
    producer.until(lambda: producer.reports[1:] == [(None, 1)], "the record is delivered")


@pytest.mark.parametrize("verb", ["blackhole", "delay", "throttle"])
def test_a_client_with_tls_times_out_and_recovers(secured, tls_topic, verb):
    producer = tls_producer(secured, tls_topic, client_id="slow", socket_timeout_ms=500, request_timeout_ms=500)
    options = {"delay": {"delay_s": 3600}, "throttle": {"bytes_per_s": 0.1}}.get(verb, {})
    with getattr(secured.faults, verb)(client_id="slow", **options):
        producer.send(tls_topic, b"two")
        producer.until(lambda: "_TIMED_OUT" in producer.errors or producer.disconnects, "a request has timed out")
        assert len(producer.reports) == 1
    producer.until(lambda: producer.reports[1:] == [(None, 1)], "the record is delivered")


def test_small_delays_and_rates_only_slow_a_client_with_tls_down(secured, tls_topic):
    values = [bytes([number]) * 20_000 for number in range(20)]
    with secured.faults.delay(0.01), secured.faults.throttle(2_000_000):
        producer = SeenProducer(secured.bootstrap_servers, **secured.client_settings)
        for value in values:
            producer.send(tls_topic, value)
        producer.until(lambda: len(producer.reports) == 20, "all messages are delivered")
        assert consume(secured.bootstrap_servers, tls_topic, 20, **secured.client_settings) == values


def test_brokers_with_tls_are_cut_off_from_each_other(secured, tls_topic):
    until_blocking(lambda: isr_of(secured, tls_topic) == {1, 2, 3}, "all replicas are in sync")
    unsafe = SeenProducer(secured.bootstrap_servers, acks=1, **secured.client_settings)
    metadata = secured.brokers[1].broker.metadata
    follower = ({2, 3} - {metadata.snapshot.controller_id}).pop()
    with secured.faults.blackhole(broker=1, peer=follower):
        assert unsafe.deliver(tls_topic, b"not replicated") == (None, 0)
        until_blocking(
            lambda: set(metadata.snapshot.partition(tls_topic, 0).isr) == {1, 5 - follower},
            "the follower is not in sync",
        )
    until_blocking(lambda: isr_of(secured, tls_topic) == {1, 2, 3}, "all replicas are in sync")


def test_connections_that_are_closed_are_forgotten():
    """Also those whose bytes go to the broker directly, because nothing is wrong with them."""
    with testing.cluster(1) as running:
        host, _, port = running.bootstrap_servers.partition(":")
        for _ in range(200):
            with socket.create_connection((host, int(port)), DEADLINE_S) as client:
                client.sendall(API_VERSIONS)
                assert client.recv(4)
        gc.collect()
        assert sum(one.client_id == "link" for one in instances(Link, gc.get_objects())) < 100
