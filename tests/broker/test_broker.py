"""One broker's life: start, stop, what is left on disk, what it refuses; handlers that are wrapped."""

from __future__ import annotations

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from broker.broker import Broker
from broker.requests.api_table import API_TABLE
from broker.requests.handler import Handler
from broker.settings.config import BrokerConfig
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.list_groups import ListGroupsRequest
from support.broker import broker_process, settings
from support.deadlines import DEADLINE_S
from support.wire import wire_client


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


class Refusing(Handler):
    """Refuses every request."""

    def __init__(self, handler):
        self.handler = handler

    def handle(self, request, context):
        return self.handler.failed(request, ErrorCode.POLICY_VIOLATION)

    def failed(self, request, code):
        return self.handler.failed(request, code)


async def test_a_wrapper_gets_each_handler_once_and_may_replace_it(tmp_path):
    wrapped = []

    def wrap(api, handler):
        wrapped.append((api, handler))
        return Refusing(handler) if api.key is ApiKey.LIST_GROUPS else handler

    config = BrokerConfig.load(None, settings(tmp_path / "data"))
    async with Broker(config, wrap_handler=wrap) as broker, wire_client(broker.bootstrap_servers) as client:
        for _ in range(2):
            answer = await client.call(ListGroupsRequest(), 4)
            assert answer.error_code == ErrorCode.POLICY_VIOLATION
    assert [api for api, _ in wrapped] == list(API_TABLE)
    assert all(isinstance(handler, Handler) for _, handler in wrapped)
