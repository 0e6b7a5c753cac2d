"""The controller's channel to one broker: a queue of requests, each sent until it is answered.

Order matters (LeaderAndIsr before the UpdateMetadata that advertises it), so only one request is in flight. If the
connection is lost, the request is sent again; that is safe because states carry epochs. A channel ends with the
broker's registration.

A broker may hang and stay registered. A long queue is then shortened: requests that newer ones supersede are removed
(see `superseded`). Kafka's queue grows.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from broker.controller.superseded import OnAnswer, QueuedRequest, without_superseded
from client.errors import KafkaError
from client.wire.backoff import Backoff, Retries
from client.wire.node_connection import ConnectionOptions, NodeConnection
from protocol.host_port import HostPort
from protocol.message import Message

logger = logging.getLogger(__name__)

LONG_QUEUE = 100
"""Requests. The queue is shortened when it is longer than this, and again each time its length has doubled."""

NewChannel = Callable[[int, HostPort], "ControllerChannel"]
"""Creates the channel to a broker of this id and address."""


class ControllerChannel:
    """The queue of requests to one broker."""

    def __init__(self, broker_id: int, address: HostPort, options: ConnectionOptions, backoff: Backoff) -> None:
        self.broker_id = broker_id
        self._connection = NodeConnection(f"broker {broker_id}", lambda: address, options.open)
        self._backoff = backoff
        self._queue: deque[QueuedRequest] = deque()
        self._limit = LONG_QUEUE
        self._news = asyncio.Event()

    def send(self, request: Message, version: int, on_answer: OnAnswer | None = None) -> None:
        """Queue a request. on_answer: called with the answer."""
        self._queue.append(QueuedRequest(request, version, on_answer))
        if len(self._queue) > self._limit:
            before = len(self._queue)
            self._queue = deque(without_superseded(self._queue))
            self._limit = max(LONG_QUEUE, 2 * len(self._queue))
            logger.info(
                "broker %d does not answer: %d requests are queued, %d without superseded ones",
                self.broker_id,
                before,
                len(self._queue),
            )
        self._news.set()

    async def run(self) -> None:
        """Send queued requests until cancelled."""
        try:
            while True:
                while not self._queue:
                    self._limit = LONG_QUEUE
                    self._news.clear()
                    await self._news.wait()
                request, version, on_answer = self._queue.popleft()
                answer = await self._send_until_answered(request, version)
                code = getattr(answer, "error_code", 0)
                if code:
                    logger.warning(
                        "broker %d refused %s with error code %d",
                        self.broker_id,
                        type(request).__name__,
                        code,
                    )
                if on_answer is not None:
                    on_answer(answer)
        finally:
            self._connection.close()

    async def _send_until_answered(self, request: Message, version: int) -> Message:
        retries = Retries(self._backoff)
        while True:
            try:
                return await (await self._connection.open()).request(request, version)
            except KafkaError as error:
                level = retries.log_level(logging.WARNING)
                logger.log(level, "broker %d does not answer %s: %s", self.broker_id, type(request).__name__, error)
                await retries.wait()
