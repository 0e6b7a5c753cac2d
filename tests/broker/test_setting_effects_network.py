"""The settings of connections, seen in a live broker."""

import asyncio
import contextlib
import re
import socket
import struct

import pytest

from broker.broker import Broker
from broker.errors import BrokerStartError
from broker.network.limits import ConnectionQuota
from broker.settings.config import BrokerConfig
from client.errors import ConnectionLostError
from client.wire.network import AsyncioNetwork
from protocol.messages.metadata import MetadataRequest
from support.broker import settings
from support.deadlines import DEADLINE_S
from support.effects import shows
from support.live import live
from support.polling import until


async def answers(connection):
    """Whether the broker answers over this connection; it may take its time."""
    try:
        await connection.negotiate()
    except ConnectionLostError:
        return False
    return True


def connections(broker):
    return broker.broker.acceptors["PLAINTEXT"].connections


def sockets(broker):
    return [one._transport.get_extra_info("socket") for one in connections(broker)]


@shows("connections.max.idle.ms")
async def test_idle_connections_are_closed(tmp_path):
    overrides = {"connections.max.idle.ms": "150", "connection.failed.authentication.delay.ms": "0"}
    async with live(tmp_path / "data", overrides) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.broker.acceptors["PLAINTEXT"].port)
        with contextlib.suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), DEADLINE_S) == b""
        writer.close()
        with contextlib.suppress(ConnectionResetError):
            await writer.wait_closed()


@shows("max.connections.per.ip")
async def test_too_many_connections_of_one_address_are_closed(tmp_path):
    async with live(tmp_path / "data", {"max.connections.per.ip": "3"}) as broker:  # the controller's, ours
        async with await broker.another() as third:
            assert await answers(third)
            async with await broker.another() as fourth:
                assert not await answers(fourth)
        await until(lambda: len(connections(broker)) == 2, "the others are gone")
        async with await broker.another() as again:
            assert await answers(again)


@shows("max.connections.per.ip.overrides")
async def test_an_address_may_have_its_own_limit(tmp_path):
    overrides = {"max.connections.per.ip": "1", "max.connections.per.ip.overrides": "127.0.0.1:3"}
    async with (
        live(tmp_path / "data", overrides) as broker,
        await broker.another() as third,
        await broker.another() as fourth,
    ):
        assert await answers(third)
        assert not await answers(fourth)


@shows("max.connections.per.ip.overrides")
async def test_the_name_of_a_host_may_have_its_own_limit(tmp_path, caplog):
    overrides = {"max.connections.per.ip": "1", "max.connections.per.ip.overrides": "localhost:3"}
    async with live(tmp_path / "data", overrides) as broker:
        async with await broker.another() as third, await broker.another() as fourth:
            assert await answers(third)
            assert not await answers(fourth)
        await broker.set_dynamic(max_connections_per_ip_overrides="no..host:9")
        await until(lambda: "no..host: the name has no address" in caplog.text, "the error is logged")
        async with await broker.another() as third:
            assert await answers(third)  # the limits before stay
        await broker.set_dynamic(max_connections_per_ip_overrides="localhost:2,192.0.2.1:9")

        async def is_refused():
            async with await broker.another() as third:
                return not await answers(third)

        await until(is_refused, "the new limit is effective")


async def test_a_host_without_an_address_prevents_the_start(tmp_path):
    with pytest.raises(BrokerStartError, match=r"overrides=no\.\.host: the name has no address"):
        async with live(tmp_path / "data", {"max.connections.per.ip.overrides": "no..host:9"}):
            pass


@shows("max.connections.per.ip", "max.connections.per.ip.overrides")
async def test_limits_of_addresses_change_at_runtime(tmp_path):
    async with live(tmp_path / "data") as broker:
        await broker.set_dynamic(max_connections_per_ip="2")
        async with await broker.another() as third:
            assert not await answers(third)
        assert await answers(broker.connection)  # who is there stays
        await broker.set_dynamic(max_connections_per_ip_overrides="127.0.0.1:5")
        async with await broker.another() as third:
            assert await answers(third)


@shows("max.connections")
async def test_a_connection_above_the_limit_waits_for_another_to_close(tmp_path):
    async with live(tmp_path / "data", {"max.connections": "3"}) as broker:
        second = await broker.another()
        assert await answers(second)
        async with await broker.another() as third:
            answered = asyncio.create_task(answers(third))
            await until(lambda: len(connections(broker)) == 4, "the connection is there")
            assert sum(one._held for one in connections(broker)) == 1
            await broker.metadata()  # a round trip later it has no answer yet
            assert not answered.done()
            await second.close()
            assert await answered


@shows("max.connections")
async def test_the_limit_of_connections_changes_at_runtime(tmp_path):
    async with live(tmp_path / "data") as broker:
        await broker.set_dynamic(max_connections="2")
        async with await broker.another() as third:
            answered = asyncio.create_task(answers(third))
            await until(lambda: any(one._held for one in connections(broker)), "the connection waits")
            await broker.set_dynamic(max_connections="3")
            assert await answered


@shows("max.connections")
async def test_the_inter_broker_listener_is_not_limited(tmp_path):
    overrides = {
        "listener.security.protocol.map": "INTERNAL:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "listeners": "PLAINTEXT://127.0.0.1:0,INTERNAL://127.0.0.1:0",
        "inter.broker.listener.name": "INTERNAL",
        "max.connections": "0",
    }
    config = BrokerConfig.load(None, settings(tmp_path / "data") | overrides)
    async with Broker(config) as broker:  # ready, which it is only when its controller has reached it
        assert [one._held for one in broker.acceptors["INTERNAL"].connections] == [False]


@shows("max.connection.creation.rate")
async def test_connections_are_accepted_at_the_configured_rate(tmp_path):
    async with live(tmp_path / "data", {"quota.window.size.seconds": "1000"}) as broker:  # the longest wait
        await broker.set_dynamic(max_connection_creation_rate="0")
        others = [await broker.another() for _ in range(5)]
        answered = asyncio.gather(*map(answers, others))
        await until(lambda: sum(one._held for one in connections(broker)) == 5, "all wait")
        await broker.set_dynamic(max_connection_creation_rate="100")
        assert await answered == [True] * 5
        for other in others:
            await other.close()


class Held:
    host = "10.0.0.1"
    closed = False

    def __init__(self):
        self.admitted = True

    def hold(self):
        self.admitted = False

    def admit(self):
        self.admitted = True

    def close(self, reason):
        self.closed = True


@shows("max.connection.creation.rate")
def test_the_connection_rate_holds_over_the_window():
    now_s = 100.0
    timers = []
    quota = ConnectionQuota(
        creation_rate_per_s=1, now_s=lambda: now_s, call_later=lambda delay, work: timers.append(work)
    )
    arrived = [Held() for _ in range(100)]
    for one in arrived:
        quota.connected(one)
    assert sum(one.admitted for one in arrived) == 10  # what the window allows at once
    for step in range(1, 31):
        now_s = 100.0 + step * 1.001
        assert len(timers) == 1  # one, however many wait
        timers.pop()()
        assert sum(one.admitted for one in arrived) == 10 + step
    for one in arrived[50:]:
        quota.disconnected(one)
    assert quota.total == 50
    now_s = 200.0
    while timers:
        timers.pop()()
        now_s += 1
    assert sum(one.admitted for one in arrived) == 50


@shows("socket.request.max.bytes")
async def test_a_request_above_the_maximum_size_closes_its_connection(tmp_path):
    async with live(tmp_path / "data", {"socket.request.max.bytes": "1000"}) as broker:
        await broker.create("t")
        assert (await broker.produce("t", [b"v" * 500])).error_code == 0
        with pytest.raises(ConnectionLostError):
            await broker.produce("t", [b"v" * 1500])


@shows("queued.max.request.bytes")
async def test_large_requests_wait_for_memory(tmp_path):
    overrides = {"queued.max.request.bytes": "20000", "socket.request.max.bytes": "20000"}
    async with live(tmp_path / "data", overrides) as broker:
        await broker.create("t")
        port = broker.broker.acceptors["PLAINTEXT"].port
        budget = broker.broker.acceptors["PLAINTEXT"].budget
        stalled = []
        for number in (1, 2):  # the second may still overdraw what is left
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(struct.pack(">i", 15_000) + bytes(10))
            stalled.append(writer)
            await until(lambda number=number: budget.reserved_bytes == number * 15_004, "a request is half here")
        large = asyncio.create_task(broker.produce("t", [b"v" * 10_000]))
        await until(lambda: budget._waiting, "the next one waits")
        assert not large.done()
        async with await broker.another() as small:
            assert await answers(small)
        for writer in stalled:
            writer.close()
            await writer.wait_closed()
        assert (await large).error_code == 0


@shows("socket.receive.buffer.bytes", "socket.send.buffer.bytes")
async def test_sockets_have_the_configured_buffer_sizes(tmp_path):
    overrides = {"socket.receive.buffer.bytes": "9000", "socket.send.buffer.bytes": "7000"}
    async with live(tmp_path / "data", overrides) as broker:
        for one in sockets(broker):  # Linux doubles both
            assert one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 18_000
            assert one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 14_000
    for untouched in ({"socket.receive.buffer.bytes": "-1", "socket.send.buffer.bytes": "-1"}, {}):
        async with live(tmp_path / "data", untouched) as broker:
            for one in sockets(broker):
                assert one.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) not in (18_000, 204_800)


class NotingNetwork(AsyncioNetwork):
    __slots__ = ("backlogs",)

    def __init__(self):
        self.backlogs = []

    async def listen(self, protocol_factory, host, port, *, backlog=0):
        self.backlogs.append(backlog)
        return await super().listen(protocol_factory, host, port, backlog=backlog)


@shows("socket.listen.backlog.size")
async def test_connections_wait_in_the_backlog(tmp_path):
    network = NotingNetwork()
    async with live(tmp_path / "data", {"socket.listen.backlog.size": "17"}, network=network) as broker:
        assert network.backlogs == [17]
        assert (await broker.ask(MetadataRequest(topics=[]), 9)).brokers


STALLED = 4


class StalledNetwork(AsyncioNetwork):
    """The first connections are never made."""

    def __init__(self, stalled):
        self.stalled = stalled

    async def connect(self, protocol_factory, host, port, *, tls=None):
        if self.stalled:
            self.stalled -= 1
            await asyncio.get_running_loop().create_future()
        return await super().connect(protocol_factory, host, port, tls=tls)


@shows("socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms")
async def test_a_connection_between_brokers_that_is_not_made_is_given_up(tmp_path, caplog):
    """The controller connects to its own broker, with 20 ms at first, and at most 50 ms later."""
    caplog.set_level("DEBUG")
    times = {"socket.connection.setup.timeout.ms": "20", "socket.connection.setup.timeout.max.ms": "50"}
    config = BrokerConfig.load(None, settings(tmp_path / "data") | times)

    def given_up():
        return [float(text) * 1000 for text in re.findall(r"no answer within ([0-9.]+) s", caplog.text)]

    async with Broker(config, network=StalledNetwork(STALLED)):
        await until(lambda: len(given_up()) == STALLED, "the stalled connections are given up")
    first, second, *others = given_up()
    assert 16 <= first <= 24
    assert 32 <= second <= 48
    assert others
    assert all(40 <= one <= 60 for one in others)
