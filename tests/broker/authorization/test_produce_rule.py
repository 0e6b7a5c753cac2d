"""Topics that a user may write to are remembered by its connections, until anything about it changes."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from broker.authorization import produce_rule
from broker.authorization.access import MAX_CACHED_NAME, MAX_WRITABLE, Access
from broker.authorization.audit import logger as audit_logger
from broker.authorization.produce_rule import ProduceRule
from broker.authorization.rule import Gate
from broker.network.connection import Connection
from broker.requests.context import RequestContext
from protocol.messages.produce import ProduceRequest, TopicProduceData
from security.acls.types import Operation
from security.principal import Principal


class Writers:
    """An authorizer that knows who may write, and notes the questions."""

    def __init__(self, *writers):
        self.writers = set(writers)
        self.asked = []
        self.changed = lambda: None

    def allows(self, principal, host, operation, resource_type, name):
        assert operation is Operation.WRITE
        self.asked.append((principal.name, name))
        return principal.name in self.writers


class Handler:
    """Answers with the topics that it was asked to append to."""

    def handle(self, request, context):
        return [topic.name for topic in request.topic_data]

    def failed(self, request, code):
        return SimpleNamespace(responses=[f"{topic.name} {code.name}" for topic in request.topic_data])


class Appends(Handler):
    """What answers a request for topics that are remembered."""

    def __init__(self, services, request, context):
        self.request = request
        self.context = context

    def answer(self):
        return self.handle(self.request, self.context)


@pytest.fixture(autouse=True)
def appends(monkeypatch):
    monkeypatch.setattr(produce_rule, "Appends", Appends)


class Broker:
    """The handler of Produce behind its rule, and a connection."""

    def __init__(self, *writers):
        self.authorizer = Writers(*writers)
        self.access = Access(self.authorizer)
        self.produce = ProduceRule().guard(Handler(), Gate(self.access, SimpleNamespace(), "Produce"))

    def connection(self, user="alice"):
        acceptor = SimpleNamespace(handle_frame=None, max_request_bytes=100, name="PLAINTEXT")
        connection = Connection(acceptor)
        connection.principal = Principal("User", user)
        return connection

    def send(self, connection, *topics, transactional_id=None):
        data = [TopicProduceData(name=topic) for topic in topics]
        request = ProduceRequest(transactional_id=transactional_id, acks=1, topic_data=data)
        context = RequestContext(connection, 9, 1, "test")
        answer = self.produce.handle(request, context)
        return answer if isinstance(answer, list) else answer.responses

    def asked(self):
        """Return the questions since the last call. The cached decisions are dropped: they answer none of the next."""
        found, self.authorizer.asked = self.authorizer.asked, []
        self.access._decisions.clear()
        return found


def test_a_topic_is_looked_up_once():
    broker = Broker("alice")
    connection = broker.connection()
    assert broker.send(connection, "a") == ["a"]
    assert broker.asked() == [("alice", "a")]
    assert broker.send(connection, "a") == ["a"]
    assert broker.asked() == []
    assert broker.send(connection, "a", "b") == ["a", "b"]
    assert broker.asked() == [("alice", "a"), ("alice", "b")]
    assert broker.send(connection, "b", "a") == ["b", "a"]
    assert broker.asked() == []


def test_connections_of_one_user_share_it():
    broker = Broker("alice", "bob")
    first, second, other = broker.connection(), broker.connection(), broker.connection("bob")
    for connection in (first, second, other):
        broker.send(connection, "a")
    assert first.writable is second.writable
    assert first.writable is not other.writable
    second.host = "192.0.2.7"
    second.principal = Principal("User", "alice")
    broker.send(second, "a")
    assert first.writable is not second.writable


def test_a_change_of_the_decisions_is_effective_at_once():
    broker = Broker("alice")
    connection = broker.connection()
    broker.send(connection, "a")
    broker.authorizer.writers.clear()
    broker.authorizer.changed()
    assert broker.send(connection, "a") == ["a TOPIC_AUTHORIZATION_FAILED"]
    broker.authorizer.writers.add("alice")
    broker.authorizer.changed()
    assert broker.send(connection, "a") == ["a"]


def test_another_user_of_the_connection_is_asked_for():
    broker = Broker("alice")
    connection = broker.connection()
    broker.send(connection, "a")
    connection.principal = Principal("User", "eve")
    assert broker.send(connection, "a") == ["a TOPIC_AUTHORIZATION_FAILED"]


def test_a_denied_topic_is_not_remembered():
    broker = Broker()
    connection = broker.connection()
    for _ in range(2):
        assert broker.send(connection, "a") == ["a TOPIC_AUTHORIZATION_FAILED"]
        assert ("alice", "a") in broker.asked()


def test_a_transactional_id_is_always_asked_for():
    broker = Broker("alice")
    connection = broker.connection()
    broker.send(connection, "a")
    broker.asked()
    assert broker.send(connection, "a", transactional_id="t") == ["a"]
    assert ("alice", "t") in broker.asked()
    broker.authorizer.writers.clear()
    assert broker.send(connection, "a", transactional_id="u") == ["a TRANSACTIONAL_ID_AUTHORIZATION_FAILED"]


def test_the_audit_log_has_remembered_topics_too(caplog: pytest.LogCaptureFixture):
    broker = Broker("alice")
    connection = broker.connection()
    broker.send(connection, "a")
    with caplog.at_level(logging.DEBUG, audit_logger.name):
        broker.send(connection, "a")
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["allowed"]


def test_clients_cannot_make_it_large():
    broker = Broker("alice")
    connection = broker.connection()
    broker.send(connection, *(f"topic-{number}" for number in range(3 * MAX_WRITABLE)))
    broker.send(connection, "x" * (MAX_CACHED_NAME + 1))
    assert 0 < len(connection.writable) <= MAX_WRITABLE
    assert max(map(len, connection.writable)) <= MAX_CACHED_NAME


def test_nothing_is_kept_for_users_without_connections():
    broker = Broker("alice")
    connection = broker.connection()
    broker.send(connection, "a")
    assert len(broker.access._writable) == 1
    del connection
    assert len(broker.access._writable) == 0
