"""The verbs for brokers, as a producer of librdkafka meets them."""

import pytest

from ottla import testing
from ottla.testing.faults.errors import FaultError
from support.faulty_cluster import SeenProducer, consume, create_topic, isr_of, leader_of, whole
from support.polling import until_blocking


@pytest.fixture(scope="module")
def cluster():
    with testing.cluster(3) as running:
        yield running


@pytest.fixture(autouse=True)
def healed(cluster):
    yield
    cluster.faults.heal_all()
    until_blocking(lambda: whole(cluster), "the cluster is whole")


@pytest.mark.parametrize("verb", ["stop", "kill", "pause"])
def test_a_leader_that_is_gone_is_replaced_and_healed(cluster, verb):
    topic = create_topic(cluster, f"gone-{verb}", [2, 1, 3])
    producer = SeenProducer(cluster.bootstrap_servers, enable_idempotence=True, socket_timeout_ms=1000)
    assert producer.deliver(topic, b"one") == (None, 0)
    fault = getattr(cluster.faults, verb)(2)
    assert fault.did == {"broker": 2}
    assert [(one["verb"], one["options"]) for one in cluster.faults.active()] == [(verb, {"broker": 2})]
    until_blocking(lambda: leader_of(cluster, topic) in (1, 3), "another broker leads")
    assert producer.deliver(topic, b"two") == (None, 1)
    fault.heal()
    assert cluster.faults.active() == []
    until_blocking(lambda: whole(cluster), "the cluster is whole")
    until_blocking(lambda: isr_of(cluster, topic) == {1, 2, 3}, "all replicas are in sync")
    assert consume(cluster.bootstrap_servers, topic, 2) == [b"one", b"two"]


def test_a_limit_starts_a_killed_broker_again(cluster):
    cluster.faults.kill(3, for_s=0.01)
    until_blocking(lambda: cluster.faults.active() == [] and whole(cluster), "the broker is back")


@pytest.mark.parametrize("kill", [False, True])
def test_restart(cluster, kill):
    topic = create_topic(cluster, f"restart-{kill}", [2])
    producer = SeenProducer(cluster.bootstrap_servers)
    assert producer.deliver(topic, b"one") == (None, 0)
    assert cluster.faults.restart(2, kill=kill).did == {"broker": 2}
    assert producer.deliver(topic, b"two") == (None, 1)
    producer.until(lambda: producer.disconnects > 0, "the connection was closed")


def test_start_and_resume_end_the_faults(cluster):
    cluster.faults.stop(2)
    cluster.faults.start(2)
    assert cluster.faults.active() == []
    cluster.faults.pause(2)
    cluster.faults.resume(2)
    assert cluster.faults.active() == []
    killed = cluster.faults.kill(2)
    cluster.start_broker(2)
    killed.heal()  # does nothing


def test_a_broker_in_the_wrong_state_is_refused(cluster):
    with pytest.raises(FaultError, match="broker=2: the broker is running; it must be stopped"):
        cluster.faults.start(2)
    with pytest.raises(FaultError, match="broker=2: the broker is running; it must be paused"):
        cluster.faults.resume(2)
    cluster.faults.stop(2)
    with pytest.raises(FaultError, match="broker=2: the broker is stopped; it must be running or paused"):
        cluster.faults.kill(2)
    with pytest.raises(FaultError, match="broker=9: the cluster has no broker with this id; it has 1, 2, 3"):
        cluster.faults.pause(9)
