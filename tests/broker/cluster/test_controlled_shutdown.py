"""ControlledShutdown, asked of a scripted controller."""

from __future__ import annotations

from broker.cluster.controlled_shutdown import ControlledShutdown
from broker.settings.config import BrokerConfig
from client.wire.network import AsyncioNetwork
from client.wire.node_connection import ConnectionOptions
from protocol.api_keys import ApiKey
from protocol.messages.controlled_shutdown import ControlledShutdownResponse
from support.broker import settings
from support.deadlines import DEADLINE_S
from support.fake_broker import FakeBroker
from support.known_brokers import metadata_of

UNKNOWN_CODE = 999


async def test_controlled_shutdown_is_retried_after_an_unknown_error_code(tmp_path, caplog):
    config = BrokerConfig.load(
        None, settings(tmp_path, controlled_shutdown_max_retries="2", controlled_shutdown_retry_backoff_ms="1")
    )
    async with FakeBroker(node_id=1) as controller:
        controller.script[ApiKey.CONTROLLED_SHUTDOWN] = [
            lambda request, version: ControlledShutdownResponse(error_code=UNKNOWN_CODE),
            lambda request, version: ControlledShutdownResponse(),
        ]
        shutdown = ControlledShutdown(
            0,
            config,
            metadata_of(controller),
            ConnectionOptions(AsyncioNetwork(), "0", request_timeout_s=DEADLINE_S),
            lambda: 77,
        )
        assert await shutdown.run()
    assert f"broker 1 answered unknown error code {UNKNOWN_CODE}" in caplog.text
