"""Settings of the controller and of brokers that stop: each has an effect, and another one than its opposite."""

import asyncio

import pytest

from broker.broker import Broker
from broker.cluster.controlled_shutdown import ControlledShutdown
from broker.controller import controller as controller_module
from broker.controller.controller import Controller
from broker.settings.config import BrokerConfig
from registry.embedded.store import EmbeddedStore
from support.broker import settings
from support.controllers import Cluster
from support.effects import shows
from support.polling import until

PARTITIONS = 10


async def astray(cluster, preferred_elsewhere):
    """Broker 1 leads so many of the partitions that broker 2 should lead; the controller has just taken office."""
    for broker_id in (1, 2):
        await cluster.join(broker_id, runs=broker_id == 1)
    controller = await cluster.elected()
    await until(lambda: len(controller.context.brokers) == 2, "both are there")
    await cluster.create("t", *[[2, 1]] * PARTITIONS)
    await until(lambda: cluster.leader("t", PARTITIONS - 1), "it is led")
    states = (await cluster.settled()).context.leaderships
    for partition in range(preferred_elsewhere):
        key = ("t", partition)
        await controller._states.set({key: states[key].state.replace(leader=1, leader_epoch=1)})
    return controller


def led_by_two(cluster):
    return sum(cluster.leader("t", partition)[0] == 2 for partition in range(PARTITIONS))


@shows("auto.leader.rebalance.enable", "leader.imbalance.check.interval.seconds")
@pytest.mark.parametrize(("enabled", "interval_s"), [("true", "1"), ("false", "1"), ("true", "3000")])
async def test_leadership_returns_to_the_preferred_replica(enabled, interval_s, monkeypatch, tmp_path):
    monkeypatch.setattr(controller_module, "FIRST_REBALANCE_S", 0.0)
    overrides = {
        "auto_leader_rebalance_enable": enabled,
        "leader_imbalance_check_interval_seconds": interval_s,
    }
    async with Cluster(tmp_path, **overrides) as cluster:
        await astray(cluster, 5)
        if (enabled, interval_s) == ("true", "1"):
            await until(lambda: led_by_two(cluster) == PARTITIONS, "all is as preferred")
        else:
            await asyncio.sleep(1.2)  # the one above is done by then
            assert led_by_two(cluster) == PARTITIONS - 5


@shows("leader.imbalance.per.broker.percentage")
@pytest.mark.parametrize(("percentage", "goes_back"), [("19", True), ("20", False)])
async def test_some_imbalance_is_allowed(percentage, goes_back, tmp_path):
    overrides = {
        "auto_leader_rebalance_enable": "false",
        "leader_imbalance_per_broker_percentage": percentage,
    }
    async with Cluster(tmp_path, **overrides) as cluster:
        controller = await astray(cluster, 2)
        await controller.decide("rebalance", controller.elections.rebalance)
        assert led_by_two(cluster) == (PARTITIONS if goes_back else PARTITIONS - 2)


@shows("controlled.shutdown.enable", "controlled.shutdown.max.retries", "controlled.shutdown.retry.backoff.ms")
@pytest.mark.parametrize(
    ("overrides", "asked", "pauses_s"),
    [
        ({}, 3, [5.0, 5.0]),
        ({"controlled_shutdown_enable": "false"}, 0, []),
        ({"controlled_shutdown_max_retries": "2"}, 2, [5.0]),
        ({"controlled_shutdown_retry_backoff_ms": "7"}, 3, [0.007, 0.007]),
    ],
)
async def test_a_stopping_broker_hands_over_its_leaderships(overrides, asked, pauses_s, monkeypatch, tmp_path):
    """To a controller that never gets rid of one partition, so that it is asked as often as is set."""
    times, paused_s = [], []

    async def relieve(self, broker_id, broker_epoch):
        times.append(broker_id)
        return [("t", 0)]

    async def is_alone(self, *, within_s):
        if within_s:
            paused_s.append(within_s)
        return len(self._metadata.snapshot.brokers) == 1

    monkeypatch.setattr(Controller, "relieve", relieve)
    monkeypatch.setattr(ControlledShutdown, "_is_alone", is_alone)
    store = await EmbeddedStore.open()
    first, second = (
        Broker(BrokerConfig.load(None, settings(tmp_path / str(id_), broker_id=str(id_), **overrides)), store=store)
        for id_ in (1, 2)
    )
    async with first:
        async with second:
            await until(lambda: len(second.metadata.snapshot.brokers) == 2, "it knows the other one")
        assert times == [2] * asked
        assert paused_s == pauses_s
        await until(lambda: len(first.metadata.snapshot.brokers) == 1, "it is gone")
    assert times == [2] * asked  # who is alone has nobody to hand over to
    await store.close()
