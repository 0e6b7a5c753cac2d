"""One connection: pipelining, deadlines, loss, malformed answers, version negotiation."""

import asyncio
import socket
import struct

import pytest

from client.errors import (
    BrokerUnreachableError,
    ConnectionLostError,
    MalformedResponseError,
    RequestTimeoutError,
    UnsupportedApiError,
)
from client.wire.connection import Connection
from client.wire.network import AsyncioNetwork
from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.fetch import FetchRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from protocol.record_batch_builder import RecordBatchBuilder
from support.fake_broker import CLOSE, SILENCE, FakeBroker
from support.polling import until


@pytest.fixture
async def fake():
    async with FakeBroker({"a": 1, "b": 2}) as broker:
        yield broker


@pytest.fixture
async def connection(fake):
    async with await Connection.open("127.0.0.1", fake.port) as opened:
        yield opened


def ask(name):
    return MetadataRequest(topics=[MetadataRequestTopic(name=name)])


async def test_pipelined_requests_get_their_own_answers(connection, fake):
    await connection.negotiate()
    futures = [connection.submit(ask("ab"[number % 2]), MetadataResponse, number % 13) for number in range(40)]
    assert connection.in_flight == 40
    answers = await asyncio.gather(*futures)
    assert [answer.topics[0].name for answer in answers] == ["a", "b"] * 20
    assert connection.in_flight == 0


async def test_request_picks_the_highest_common_version(connection, fake):
    fake.versions[ApiKey.METADATA] = (2, 7)
    await connection.negotiate()
    assert connection.common_version(MetadataRequest) == 7
    assert connection.common_version(MetadataRequest, 5) == 5
    answer = await connection.request(ask("a"), max_version=5)
    assert isinstance(answer, MetadataResponse)
    with pytest.raises(UnsupportedApiError, match="2 to 7"):
        connection.common_version(MetadataRequest, 1)
    fake.versions[ApiKey.FETCH] = (0, -1)
    await connection.negotiate()
    with pytest.raises(UnsupportedApiError, match="FETCH"):
        await connection.request(FetchRequest())


async def test_versions_must_be_negotiated_first(connection):
    with pytest.raises(UnsupportedApiError, match="negotiate"):
        await connection.request(ask("a"))
    assert isinstance(await connection.request(ask("a"), 1), MetadataResponse)


def refusal(broker_max):
    def answer(request, version):
        keys = [ApiVersion(api_key=18, min_version=0, max_version=broker_max)]
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=keys), 0

    return answer


@pytest.mark.parametrize("broker_max", [0, 2, 3])
async def test_negotiation_falls_back_to_what_the_broker_offers(connection, fake, broker_max):
    fake.script[ApiKey.API_VERSIONS] = [refusal(broker_max)]
    asked = []
    answer = fake._api_versions
    fake._api_versions = lambda request, version, error: asked.append(version) or answer(request, version, error)
    await connection.negotiate()
    assert asked == [broker_max]
    assert connection.api_versions[ApiKey.METADATA] == (0, MetadataRequest.MAX_VERSION)


async def test_negotiation_survives_a_malformed_refusal(connection, fake):
    fake.script[ApiKey.API_VERSIONS] = [lambda request, version: b"\0\0\0\0\0\x23\x01\0\x12\0\0\0\x02\0\0\0\0"]
    await connection.negotiate()
    assert ApiKey.METADATA in connection.api_versions


async def test_negotiation_fails_after_repeated_refusals(connection, fake):
    fake.script[ApiKey.API_VERSIONS] = [refusal(4)] * 5
    with pytest.raises(UnsupportedApiError):
        await connection.negotiate()


async def test_client_name_is_sent(connection, fake):
    await connection.negotiate()
    request = fake.seen(ApiKey.API_VERSIONS)[0]
    assert request.client_software_name == "ottla"
    assert request.client_software_version != ""


async def test_a_refused_connection():
    with pytest.raises(BrokerUnreachableError, match=r"no broker answers at 127\.0\.0\.1:1: .*refused"):
        await Connection.open("127.0.0.1", 1)


async def test_a_connect_timeout():
    class Stuck(AsyncioNetwork):
        async def connect(self, protocol_factory, host, port):
            await asyncio.get_running_loop().create_future()

    with pytest.raises(BrokerUnreachableError, match=r"0\.01 s"):
        await Connection.open("host", 9, network=Stuck(), connect_timeout_s=0.01)


async def test_a_lost_connection_fails_all_requests_in_flight(connection, fake):
    fake.script[ApiKey.METADATA] = [SILENCE, SILENCE, CLOSE]
    reasons = []
    connection.on_close = reasons.append
    futures = [connection.submit(ask("a"), MetadataResponse, 1) for _ in range(3)]
    errors = await asyncio.gather(*futures, return_exceptions=True)
    assert [type(error) for error in errors] == [ConnectionLostError] * 3
    assert f"127.0.0.1:{fake.port}" in str(errors[0])
    assert all(error.retriable for error in errors)
    await connection.wait_closed()
    assert connection.is_closed
    assert reasons == errors[:1]
    with pytest.raises(ConnectionLostError):
        await connection.request(ask("a"), 1)
    with pytest.raises(ConnectionLostError):
        connection.send_no_reply(ask("a"), 1)


async def test_a_request_without_answer_times_out_and_ends_the_connection(connection, fake):
    fake.script[ApiKey.METADATA] = [SILENCE, SILENCE]
    later = connection.submit(ask("a"), MetadataResponse, 1, timeout_s=60)
    with pytest.raises(RequestTimeoutError, match="METADATA"):
        await connection.request(ask("a"), 1, timeout_s=0.01)
    with pytest.raises(ConnectionLostError, match="in time"):
        await later
    await connection.wait_closed()


async def test_deadlines_of_answered_requests_are_ignored(connection):
    connection._request_timeout_s = 0.05
    for _ in range(3):
        await connection.request(ask("a"), 1)
    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.12, done.set_result, None)
    await done
    assert not connection.is_closed
    assert connection._timer is None


async def test_a_cancelled_request_drops_its_answer(connection, fake):
    first = connection.submit(ask("a"), MetadataResponse, 1)
    second = connection.submit(ask("b"), MetadataResponse, 1)
    first.cancel()
    assert (await second).topics[0].name == "b"
    assert (await connection.request(ask("a"), 1)).topics[0].name == "a"


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"\0\0", "correlation id"),
        (b"\0\0\0\x09" + bytes(30), "correlation id 9, expected 0"),
        (b"\0\0\0\0" + b"\x7f\xff\xff\xff" * 4, "MetadataResponse"),
        (b"\0\0\0\0", "MetadataResponse"),
    ],
)
async def test_malformed_answer_closes_the_connection(connection, fake, frame, reason):
    fake.script[ApiKey.METADATA] = [lambda request, version: frame]
    with pytest.raises(MalformedResponseError, match=reason):
        await connection.request(ask("a"), 1)
    await connection.wait_closed()


async def test_unasked_answer_closes_the_connection(connection, fake):
    fake.script[ApiKey.METADATA] = [lambda request, version: b"\0\0\0\0" + MetadataResponse().to_bytes(1)]
    connection.send_no_reply(ask("a"), 1)
    await connection.wait_closed()
    assert isinstance(connection._error, MalformedResponseError)


async def test_too_large_answer_closes_the_connection(fake):
    async with await Connection.open("127.0.0.1", fake.port, max_response_size=100) as connection:
        fake.script[ApiKey.METADATA] = [lambda request, version: bytes(101)]
        with pytest.raises(MalformedResponseError, match="101"):
            await connection.request(ask("a"), 1)


async def test_close_fails_requests_and_may_be_repeated(connection, fake):
    fake.script[ApiKey.METADATA] = [SILENCE]
    future = connection.submit(ask("a"), MetadataResponse, 1)
    await connection.close()
    await connection.close()
    with pytest.raises(ConnectionLostError, match="closed by this side"):
        await future


async def test_a_closed_connection_has_no_buffers(connection):
    await connection.negotiate()
    assert len(connection.get_buffer(-1)) > 0
    await connection.close()
    assert len(connection.get_buffer(-1)) == 0


async def test_header_versions_and_client_id(fake):
    """ControlledShutdown 0 has no client id; flexible versions have tagged fields; a null client id is
    none.
    """
    frames = []

    async def take(frame):
        frames.append(bytes(frame))

    fake._answer = take
    async with await Connection.open("127.0.0.1", fake.port, client_id=None) as connection:
        connection.send_no_reply(ApiVersionsRequest(), 0)
        connection.send_no_reply(MetadataRequest(topics=[]), 9)
        await until(lambda: len(frames) == 2, "both requests")
    assert frames[0] == bytes.fromhex("0012 0000 00000000 ffff")
    assert frames[1][:10] == bytes.fromhex("0003 0009 00000001 ffff")
    assert frames[1][10] == 0


async def fill(connection):
    """Send four large requests, which are more than the system takes at once."""
    builder = RecordBatchBuilder()
    builder.append(0, None, bytes(5_000_000))
    part = PartitionProduceData(index=0, records=builder.build())
    request = ProduceRequest(acks=0, timeout_ms=1, topic_data=[TopicProduceData(name="a", partition_data=[part])])
    for _ in range(4):
        connection.send_no_reply(request, 7)
    assert connection.is_congested
    await connection.drain()
    assert not connection.is_congested


async def test_large_requests_are_written_in_pieces(connection, fake):
    await fill(connection)
    assert (await connection.request(ask("a"), 1)).topics[0].name == "a"
    assert len(fake.records("a", 0)) == 4


async def test_a_large_request_to_a_broker_that_has_left_says_so_once(caplog):
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = await Connection.open("127.0.0.1", server.getsockname()[1])
        accepted, _ = server.accept()
        accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        accepted.close()  # with a reset
        parts = [PartitionProduceData(index=number, records=bytes(100_000)) for number in range(10)]
        topic = TopicProduceData(name="a", partition_data=parts)
        connection.send_no_reply(ProduceRequest(acks=0, timeout_ms=1, topic_data=[topic]), 7)
        with pytest.raises(ConnectionLostError):
            await connection.request(ask("a"), 1)
    assert caplog.messages == []


async def test_uvloop_works():
    uvloop = pytest.importorskip("uvloop")

    async def main():
        async with FakeBroker({"a": 1}) as broker, await Connection.open("127.0.0.1", broker.port) as connection:
            await connection.negotiate()
            answers = await asyncio.gather(*(connection.request(ask("a")) for _ in range(10)))
            await fill(connection)
            with pytest.raises(BrokerUnreachableError, match="refused"):
                await Connection.open("127.0.0.1", 1)
            return len(answers)

    def run():
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main())

    assert await asyncio.to_thread(run) == 10


async def test_network_listens_on_a_free_port():
    class Echo(asyncio.Protocol):
        def connection_made(self, transport):
            transport.write(b"hello")
            transport.close()

    network = AsyncioNetwork()
    server = await network.listen(Echo, "127.0.0.1", 0)
    assert server.port > 0
    received = asyncio.get_running_loop().create_future()

    class Client(asyncio.Protocol):
        def data_received(self, data):
            received.set_result(data)

    transport, _ = await network.connect(Client, "127.0.0.1", server.port)
    assert await received == b"hello"
    transport.close()
    server.close()
    await server.wait_closed()
