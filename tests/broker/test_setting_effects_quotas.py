"""The settings of quotas, seen in a live broker."""

import pytest

from support.effects import shows
from support.live import live

USER = "users/ANONYMOUS"


async def set_quota(broker, **values):
    await broker.broker.services.configs.entities.alter(USER, lambda config: values)


@shows("quota.window.num", "quota.window.size.seconds")
@pytest.mark.parametrize(("num", "size_s", "allowed_s"), [("11", "1", 10), ("3", "1", 2), ("3", "20", 40)])
async def test_the_window_of_rates(tmp_path, num, size_s, allowed_s):
    overrides = {"quota.window.num": num, "quota.window.size.seconds": size_s}
    async with live(tmp_path / "data", overrides) as broker:
        await set_quota(broker, producer_byte_rate="100")
        quotas = broker.broker.services.quotas
        assert quotas.settle("ANONYMOUS", "c", 100 * allowed_s, 0) == 0
        assert quotas.settle("ANONYMOUS", "c", 100, 0) > 0


@shows("controller.quota.window.num", "controller.quota.window.size.seconds")
@pytest.mark.parametrize(("num", "size_s", "allowed"), [("11", "1", 11), ("2", "3", 6)])
async def test_the_window_of_controller_mutations(tmp_path, num, size_s, allowed):
    overrides = {"controller.quota.window.num": num, "controller.quota.window.size.seconds": size_s}
    async with live(tmp_path / "data", overrides) as broker:
        await set_quota(broker, controller_mutation_rate="1")
        await broker.create("t", allowed)
        assert (await broker.try_create("one-more")).error_code == 0  # the bucket was empty, not overdrawn
        assert (await broker.try_create("refused")).error_code == 89
