"""Which quota of new connections an address has."""

import asyncio

import pytest

from broker.quotas import address_rates
from broker.quotas.address_rates import AddressRates
from broker.quotas.rates import Window
from support.polling import until

RATE = "connection_creation_rate"


class Rates(AddressRates):
    def __init__(self, hosts=(), **quotas):
        self.time_s = 100.0
        self.hosts = dict(hosts)
        super().__init__(Window(11, 1.0), lambda: self.time_s, self._addresses)
        for name, quota in quotas.items():
            self.config_changed(f"ips/{name}", {RATE: quota})

    async def _addresses(self, host):
        if host not in self.hosts:
            raise OSError("no such host")
        return self.hosts[host]

    def admitted(self, address, attempts=100):
        return sum(not self.throttle_s(address) for _ in range(attempts))


def test_an_address_has_its_own_quota_or_that_of_the_default():
    rates = Rates(**{"10.0.0.1": "2", "<default>": "1"})
    assert [rates.admitted(f"10.0.0.{number}") for number in (1, 2, 3)] == [20, 10, 10]
    assert rates.is_active
    rates.config_changed("ips/<default>", {})
    assert rates.admitted("10.0.0.4") == 100
    rates.config_changed("ips/10.0.0.1", {})
    assert not rates.is_active


def test_a_refused_connection_does_not_count_and_waits_for_one_sample_at_most():
    rates = Rates(**{"10.0.0.1": "2"})
    assert rates.admitted("10.0.0.1", 1000) == 20
    assert rates.throttle_s("10.0.0.1") == pytest.approx(0.5)
    rates.config_changed("ips/10.0.0.1", {RATE: "0"})
    assert rates.throttle_s("10.0.0.1") == 1.0
    rates.config_changed("ips/10.0.0.1", {RATE: "2"})
    rates.time_s += 0.5
    assert rates.admitted("10.0.0.1") == 1


@pytest.mark.parametrize(
    ("configured", "peer"),
    [("::1", "::1"), ("0%3A0%3A0%3A0%3A0%3A0%3A0%3A1", "::1"), ("10.0.0.1", "::ffff:10.0.0.1")],
)
def test_addresses_are_compared_by_value(configured, peer):
    rates = Rates(**{configured: "1"})
    assert rates.admitted(peer) == 10


async def test_the_names_of_hosts_are_looked_up(caplog):
    rates = Rates({"db.example": ["10.0.0.7", "10.0.0.8"]}, **{"db.example": "1", "gone.example": "1"})
    running = asyncio.create_task(rates.run())
    await until(lambda: rates.admitted("10.0.0.7") == 10, "the address is known")
    assert rates.admitted("10.0.0.8") == 10
    await until(lambda: "gone.example has no effect" in caplog.text, "the other is logged")
    rates.config_changed("ips/db.example", {})
    rates.time_s += 20
    assert rates.admitted("10.0.0.7") == 100
    running.cancel()


def test_addresses_that_are_gone_are_forgotten(monkeypatch):
    monkeypatch.setattr(address_rates, "PRUNE_AT", 10)
    rates = Rates(**{"<default>": "1"})
    rates._prune_at = 10
    for number in range(200):
        rates.time_s += 1
        rates.throttle_s(f"10.0.0.{number}")
        assert len(rates._rates) < 40


def test_other_entities_are_ignored():
    rates = Rates()
    rates.config_changed("users/u", {RATE: "1"})
    assert not rates.is_active
