"""The verb `answer`: which requests it applies to, and what they get instead of their answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
import pytest_asyncio

from broker.broker import Broker
from broker.settings.config import BrokerConfig
from ottla.testing.faults.answer import AnswerFault
from ottla.testing.faults.engine import Engine
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.scene import Scene
from protocol.error_codes import ErrorCode
from protocol.messages.fetch import FetchRequest
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.broker import settings, until_leader
from support.polling import until
from support.wire import ConnectionClosedError, append, batch, create_topic, fetch, produce, wire_client

pytestmark = pytest.mark.asyncio(loop_scope="module")
GROUPS = ListGroupsRequest()


class Bench:
    """A broker with the engine of its faults."""

    def __init__(self, folder):
        members = {0: SimpleNamespace(broker=None)}
        self.scene = Scene(members, None)
        self.engine = Engine(self.scene)
        config = BrokerConfig.load(None, settings(folder / "data"))
        self.broker = Broker(config, wrap_handler=self.scene.requests.wrapper(0))
        members[0].broker = self.broker

    async def apply(self, **options):
        return await self.engine.apply(AnswerFault(**options))

    async def until_healed(self):
        await until(lambda: self.engine.active() == [], "all faults are over")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def started(tmp_path_factory):
    bench = Bench(tmp_path_factory.mktemp("answer"))
    async with bench.broker:
        yield bench


@pytest_asyncio.fixture(loop_scope="module")
async def bench(started):
    yield started
    await started.engine.heal_all()


@pytest_asyncio.fixture(loop_scope="module")
async def client(bench):
    async with wire_client(bench.broker.bootstrap_servers) as opened:
        yield opened


async def test_an_error_for_a_number_of_requests(bench, client):
    await bench.apply(api="ListGroups", error="coordinator_not_available", count=2)
    codes = [(await client.call(GROUPS)).error_code for _ in range(3)]
    assert codes == [15, 15, 0]
    await bench.until_healed()


async def test_other_apis_and_brokers_are_not_touched(bench, client):
    await bench.apply(api="Heartbeat", error="UNKNOWN_MEMBER_ID", broker=0)
    assert (await client.call(GROUPS)).error_code == 0
    assert bench.engine.active()[0]["uses"] == 0


async def test_an_empty_answer(bench, client):
    await bench.apply(api="Metadata", empty=True)
    answer = await client.call(MetadataRequest(topics=None))
    assert (answer.brokers, answer.topics) == ([], [])


async def test_only_a_client_id(bench, client):
    await bench.apply(api="ListGroups", error="UNKNOWN_SERVER_ERROR", client_id="billing")
    codes = [(await client.call(GROUPS, 4, client_id)).error_code for client_id in ("billing", "other", None)]
    assert codes == [-1, 0, 0]


async def test_only_a_topic_by_name_and_by_id(bench, client):
    topic_id = await create_topic(client, "by-id")
    await create_topic(client, "other")
    await bench.apply(api="Metadata", error="LEADER_NOT_AVAILABLE", topic="by-id")

    async def code(**topic):
        answer = await client.call(MetadataRequest(topics=[MetadataRequestTopic(**topic)]), 12)
        return answer.topics[0].error_code

    assert await code(name="by-id") == ErrorCode.LEADER_NOT_AVAILABLE
    assert await code(name=None, topic_id=topic_id) == ErrorCode.LEADER_NOT_AVAILABLE
    assert await code(name="other") == 0


async def test_a_topic_of_a_fetch_session(bench, client):
    """A request of a session that has not changed names no topic."""
    await create_topic(client, "session")
    await until_leader(bench.broker, "session")
    first = await client.call(fetch("session", session_epoch=0), 12)
    assert first.session_id
    again = FetchRequest(max_wait_ms=0, session_id=first.session_id, session_epoch=1)
    await bench.apply(api="Fetch", error="NOT_LEADER_OR_FOLLOWER", topic="others")
    assert (await client.call(again, 12)).error_code == 0
    await bench.apply(api="Fetch", error="NOT_LEADER_OR_FOLLOWER", topic="session")
    again.session_epoch = 2
    assert (await client.call(again, 12)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_an_error_is_answered_before_or_after_the_request_is_applied(bench, client):
    await create_topic(client, "applied")
    await until_leader(bench.broker, "applied")
    await bench.apply(api="Produce", error="REQUEST_TIMED_OUT", count=1)
    assert (await append(client, "applied", batch(b"a"))).error_code == ErrorCode.REQUEST_TIMED_OUT
    await bench.until_healed()
    await bench.apply(api="Produce", error="REQUEST_TIMED_OUT", applied=True, count=1)
    assert (await append(client, "applied", batch(b"b"))).error_code == ErrorCode.REQUEST_TIMED_OUT
    await bench.until_healed()
    assert (await append(client, "applied", batch(b"c"))).base_offset == 1


async def test_success_without_anything_done(bench, client):
    await create_topic(client, "lost")
    await until_leader(bench.broker, "lost")
    await bench.apply(api="Produce", error="NONE", count=1)
    assert (await append(client, "lost", batch(b"a"))).error_code == 0
    assert (await append(client, "lost", batch(b"b"))).base_offset == 0


@pytest.mark.parametrize("applied", [False, True])
async def test_a_closed_connection(bench, client, applied):
    name = f"closed-{applied}"
    await create_topic(client, name)
    await until_leader(bench.broker, name)
    await bench.apply(api="Produce", close=True, applied=applied, count=1)
    async with wire_client(bench.broker.bootstrap_servers) as other:
        with pytest.raises(ConnectionClosedError):
            await append(other, name, batch(b"a"))
    assert (await append(client, name, batch(b"b"))).base_offset == int(applied)


async def test_a_delay_holds_the_connection_until_it_is_healed(bench, client):
    told = await bench.apply(api="ListGroups", delay_s=3600, count=1)
    sent = [client.send(GROUPS, 4) for _ in range(2)]
    receiving = asyncio.create_task(client.receive(GROUPS.API_KEY, 4))
    async with wire_client(bench.broker.bootstrap_servers) as other:
        await until(lambda: bench.engine.active()[0]["uses"] == 1, "the request waits")
        assert (await other.call(GROUPS)).error_code == 0
    assert not receiving.done()
    await bench.engine.heal(told["id"])
    assert (await receiving)[0] == sent[0]
    assert (await client.receive(GROUPS.API_KEY, 4))[0] == sent[1]


@pytest.mark.parametrize("options", [{}, {"error": "UNKNOWN_SERVER_ERROR"}, {"empty": True}, {"applied": True}])
async def test_a_delay_that_passes(bench, client, options):
    await bench.apply(api="ListGroups", delay_s=0.01, **options)
    answer = await client.call(GROUPS, 4)
    assert answer.error_code == (-1 if "error" in options else 0)
    assert isinstance(answer, ListGroupsResponse)


async def test_a_producer_that_wants_no_answer(bench, client):
    """With acks=0 an error closes the connection, and an empty answer is none."""
    await create_topic(client, "unanswered")
    await until_leader(bench.broker, "unanswered")
    await bench.apply(api="Produce", empty=True, count=1)
    client.send(produce("unanswered", batch(b"a"), acks=0), 11)
    assert (await append(client, "unanswered", batch(b"b"))).base_offset == 0
    await bench.apply(api="Produce", error="UNKNOWN_SERVER_ERROR", count=1)
    async with wire_client(bench.broker.bootstrap_servers) as other:
        other.send(produce("unanswered", batch(b"c"), acks=0), 11)
        assert await other.is_closed()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"api": "Produced", "close": True}, "api=Produced: Kafka has no API with this name; did you mean Produce?"),
        ({"api": "xyz", "close": True}, "api=xyz: Kafka has no API with this name$"),
        ({"api": "Fetch", "error": "NOT_LEADER"}, "error=NOT_LEADER: .* did you mean NOT_LEADER_OR_FOLLOWER?"),
        ({"api": "Fetch"}, "one of error, empty, close and delay_s"),
        ({"api": "Fetch", "empty": True, "close": True}, "exclude each other"),
        ({"api": "Fetch", "delay_s": -1.0}, "delay_s=-1: must be 0 or more"),
        ({"api": "SaslHandshake", "close": True}, "authenticate"),
    ],
)
async def test_options_are_checked(options, text):
    with pytest.raises(FaultError, match=text):
        AnswerFault(**options)


async def test_an_unknown_broker(bench):
    with pytest.raises(FaultError, match="broker=7: the cluster has no broker with this id; it has 0"):
        await bench.apply(api="Fetch", close=True, broker=7)
