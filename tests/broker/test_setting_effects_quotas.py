"""The settings of quotas, seen in a live broker."""

import asyncio

import pytest

from broker.broker import Broker
from broker.quotas.rates import INT_MAX
from broker.settings.config import BrokerConfig
from support.broker import settings
from support.effects import shows
from support.live import live
from support.polling import until

USER = "users/ANONYMOUS"


async def set_quota(broker, **values):
    """Set quotas of the user, and stop their clock: nothing is allowed because a test takes long."""
    services = broker.broker.services
    await services.configs.entities.alter(USER, lambda config: values)
    now_s = services.quotas.now_s()
    services.quotas.now_s = lambda: now_s


@shows("quota.window.num", "quota.window.size.seconds")
@pytest.mark.parametrize(("num", "size_s", "allowed_s"), [("11", "1", 10), ("3", "1", 2), ("3", "20", 40)])
async def test_the_window_of_rates(tmp_path, num, size_s, allowed_s):
    overrides = {"quota.window.num": num, "quota.window.size.seconds": size_s}
    async with live(tmp_path / "data", overrides) as broker:
        await set_quota(broker, producer_byte_rate="100")
        quotas = broker.broker.services.quotas
        rate = quotas.of("ANONYMOUS", "c").produce.measure
        assert rate.record(100 * allowed_s, quotas.now_s()) == 0
        assert rate.record(100, quotas.now_s()) > 0


@shows("controller.quota.window.num", "controller.quota.window.size.seconds")
@pytest.mark.parametrize(("num", "size_s", "allowed"), [("11", "1", 11), ("2", "3", 6)])
async def test_the_window_of_controller_mutations(tmp_path, num, size_s, allowed):
    overrides = {"controller.quota.window.num": num, "controller.quota.window.size.seconds": size_s}
    async with live(tmp_path / "data", overrides) as broker:
        await set_quota(broker, controller_mutation_rate="1")
        await broker.create("t", allowed)
        assert (await broker.try_create("one-more")).error_code == 0  # the bucket was empty, not overdrawn
        assert (await broker.try_create("refused")).error_code == 89


@shows("max.connections", "max.connection.creation.rate")
async def test_a_listener_may_have_limits_of_its_own(tmp_path):
    overrides = {
        "listener.security.protocol.map": "FEW:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "listeners": "PLAINTEXT://127.0.0.1:0,FEW://127.0.0.1:0",
        "listener.name.few.max.connections": "3",
        "listener.name.few.max.connection.creation.rate": "7",
    }
    config = BrokerConfig.load(None, settings(tmp_path / "data") | overrides)
    assert not [warning for warning in config.warnings if "few" in warning]
    async with Broker(config) as broker:
        lines = broker._listeners._quota._lines
        assert lines["FEW"].limits == (3, 7)
        assert lines["PLAINTEXT"].limits == (INT_MAX, INT_MAX)
        acceptor = broker.acceptors["FEW"]
        opened = [await asyncio.open_connection("127.0.0.1", acceptor.port) for _ in range(4)]
        await until(lambda: sum(one._held for one in acceptor.connections) == 1, "the fourth waits")
        opened[0][1].close()
        await until(lambda: len(acceptor.connections) == 3, "one is gone")
        assert not any(one._held for one in acceptor.connections)
        for _, writer in opened:
            writer.close()
