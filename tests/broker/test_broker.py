"""One broker's life: start, stop, what is left on disk, what it refuses."""

from __future__ import annotations

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from support.broker import broker_process
from support.deadlines import DEADLINE_S


def test_topics_survive_sigkill_with_a_higher_controller_epoch(tmp_path):
    with broker_process(tmp_path / "data") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        topic = NewTopic("t", 3, 1, config={"retention.ms": "123456"})
        admin.create_topics([topic])["t"].result(DEADLINE_S)
        before = admin.describe_topics(_names(["t"]))["t"].result(DEADLINE_S)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
        producer.produce("t", b"v", partition=1)
        assert producer.flush(DEADLINE_S) == 0
        broker.kill()
        broker.start()
        after = admin.describe_topics(_names(["t"]))["t"].result(DEADLINE_S)
        assert str(after.topic_id) == str(before.topic_id)
        assert len(after.partitions) == 3
        assert "epoch 1" in broker.log_text()
        assert "epoch 2" in broker.log_text()
        assert broker.stop() == 0


def _names(names):
    from confluent_kafka import TopicCollection

    return TopicCollection(names)
