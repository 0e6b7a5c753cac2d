"""The verb `expire_session`: a broker loses its session, others take over, and clients recover."""

from __future__ import annotations

import pytest

from ottla import testing
from ottla.testing.faults.errors import FaultError
from support.faulty_cluster import SeenProducer, consume, create_topic, isr_of, leader_of, whole
from support.polling import until_blocking


def test_a_leader_whose_session_expires_registers_again():
    with testing.cluster(3) as cluster:
        topic = create_topic(cluster, "expired", [2, 1, 3])
        producer = SeenProducer(cluster.bootstrap_servers, enable_idempotence=True)
        assert producer.deliver(topic, b"one") == (None, 0)
        until_blocking(lambda: isr_of(cluster, topic) == {1, 2, 3}, "all replicas are in sync")
        session = cluster.brokers[2].session.session_id
        epoch = cluster.brokers[2].broker.services.broker_epoch
        assert cluster.faults.expire_session(2).did == {"broker": 2, "session": session}
        until_blocking(lambda: cluster.brokers[2].broker.services.broker_epoch > epoch, "it has registered again")
        assert cluster.brokers[2].session.session_id != session
        until_blocking(lambda: whole(cluster) and leader_of(cluster, topic) in (1, 2, 3), "there is a leader")
        assert producer.deliver(topic, b"two") == (None, 1)
        assert consume(cluster.bootstrap_servers, topic, 2) == [b"one", b"two"]
        assert cluster.faults.active() == []
        cluster.kill_broker(3)
        with pytest.raises(FaultError, match="broker=3: the broker does not run"):
            cluster.faults.expire_session(3)
