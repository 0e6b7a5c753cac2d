"""The channel to one broker: order, one at a time, and again after a lost connection."""

import asyncio
import contextlib
import random

import pytest

from broker.controller.channel import ControllerChannel
from client.wire.backoff import Backoff
from client.wire.network import AsyncioNetwork
from client.wire.node_connection import ConnectionOptions
from protocol.headers import decode_request_header
from protocol.host_port import HostPort
from protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from support.deadlines import DEADLINE_S
from support.polling import until
from support.tcp_server import TcpServer

VERSION = 4


class Peer:
    """A broker that answers StopReplica, or drops the connection as often as it is told to."""

    def __init__(self):
        self.epochs = []
        self.drops = 0
        self.code = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.server = TcpServer(self._serve)

    async def __aenter__(self):
        await self.server.listen()
        return self

    async def __aexit__(self, *_):
        await self.server.close()

    @property
    def port(self):
        return self.server.port

    async def _serve(self, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                header, offset = decode_request_header(frame)
                request, _ = StopReplicaRequest.decode(frame, VERSION, offset)
                self.epochs.append(request.controller_epoch)
                if self.drops:
                    self.drops -= 1
                    break
                await self.gate.wait()
                body = StopReplicaResponse(error_code=self.code).to_bytes(VERSION)
                answer = header.correlation_id.to_bytes(4, "big") + b"\0" + body
                writer.write(len(answer).to_bytes(4, "big") + answer)


@contextlib.asynccontextmanager
async def channel_to(peer):
    channel = ControllerChannel(
        3,
        HostPort("127.0.0.1", peer.port),
        ConnectionOptions(AsyncioNetwork(), "controller-1", request_timeout_s=DEADLINE_S),
        Backoff(1, 10, random.Random(1)),
    )
    running = asyncio.create_task(channel.run())
    try:
        yield channel
    finally:
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running


def request(number):
    return StopReplicaRequest(controller_epoch=number)


async def test_requests_are_sent_one_at_a_time_in_order():
    answers = []
    async with Peer() as peer, channel_to(peer) as channel:
        peer.gate.clear()
        for number in range(5):
            channel.send(request(number), VERSION, lambda answer, number=number: answers.append(number))
        await until(lambda: peer.epochs, "the first is there")
        await asyncio.sleep(0.01)
        assert peer.epochs == [0]
        peer.gate.set()
        await until(lambda: len(answers) == 5, "all are answered")
        assert peer.epochs == answers == [0, 1, 2, 3, 4]


async def test_a_request_is_resent_until_it_is_answered(caplog):
    answers = []
    async with Peer() as peer, channel_to(peer) as channel:
        peer.drops = 2
        channel.send(request(1), VERSION, answers.append)
        channel.send(request(2), VERSION, answers.append)
        await until(lambda: len(answers) == 2, "both are answered")
        assert peer.epochs == [1, 1, 1, 2]
        assert caplog.text.count("broker 3 does not answer StopReplicaRequest") == 1


async def test_the_channel_waits_for_a_broker_that_does_not_listen_yet():
    answers = []
    async with Peer() as peer:
        pass
    async with channel_to(peer) as channel:
        channel.send(request(1), VERSION, answers.append)
        await asyncio.sleep(0.01)
        async with peer:
            await until(lambda: answers, "it is answered")


async def test_an_error_answer_is_logged_and_delivered(caplog):
    answers = []
    async with Peer() as peer, channel_to(peer) as channel:
        peer.code = 77
        channel.send(request(1), VERSION, answers.append)
        await until(lambda: answers, "it is answered")
    assert answers[0].error_code == 77
    assert "broker 3 refused StopReplicaRequest with error code 77" in caplog.text
