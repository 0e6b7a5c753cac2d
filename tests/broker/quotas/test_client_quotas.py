"""Whose quota applies to a client, what is counted for it, and how long it is throttled."""

import json
import math

import pytest

from broker.quotas import client_quotas
from broker.quotas.client_quotas import UNKNOWN_LIMITS, ClientQuotas
from broker.quotas.entities import path_of
from broker.quotas.rates import INT_MAX, Window
from broker.settings.entities import EntityConfigs
from client.admin.admin import Admin
from client.admin.quotas import DEFAULT, QuotaEntity
from security.principal import Principal
from support.broker import running_broker
from support.reference import REFERENCE
from support.zookeeper import new_chroot, shared_zookeeper

LEVELS = {
    "user+client": {"user": "u", "client-id": "c"},
    "user+default client": {"user": "u", "client-id": None},
    "user": {"user": "u"},
    "default user+client": {"user": None, "client-id": "c"},
    "default user+default client": {"user": None, "client-id": None},
    "default user": {"user": None},
    "client": {"client-id": "c"},
    "default client": {"client-id": None},
}
PRECEDENCE = [
    json.loads(line)
    for line in (REFERENCE / "security" / "throttle.jsonl").read_text().splitlines()
    if json.loads(line)["experiment"] == "precedence"
]


NO_RATES = {"producer_byte_rate": None, "consumer_byte_rate": None}


def entity(level):
    """The entity of a level, for Admin."""
    names = {kind.replace("-", "_"): DEFAULT if name is None else name for kind, name in LEVELS[level].items()}
    return QuotaEntity(**names)


class Request:
    """What quotas need of a request and its connection."""

    is_settled = False
    throttle_ms = 0
    limits = UNKNOWN_LIMITS

    def __init__(self, user, client_id, size, busy_s, now_s):
        self.principal = Principal("User", user)
        self.client_id = client_id
        self.request_bytes = size
        self.began_s = now_s - busy_s

    @property
    def connection(self):
        return self


class Quotas(ClientQuotas):
    """Quotas with a clock that the test turns."""

    def __init__(self, **by_path):
        self.time_s = 100.0
        super().__init__(Window(11, 1.0), Window(11, 1.0), lambda: self.time_s)
        for path, config in by_path.items():
            self.config_changed(path, config)

    def count(self, user, client_id, produced_bytes, busy_s):
        request = Request(user, client_id, produced_bytes, busy_s, self.time_s)
        return self.settle(request, produced_bytes > 0, self.time_s)


def quotas(**by_path):
    return Quotas(**by_path)


def bytes_per_s(rate):
    return {"producer_byte_rate": str(rate)}


@pytest.mark.parametrize("row", PRECEDENCE, ids=lambda row: f"{row['quota']} {row['level_that_fits']}")
def test_the_recorded_precedence(row):
    check_precedence(
        row, Quotas(**{path_of(LEVELS[level]): {row["quota"]: str(rate)} for level, rate in row["levels_set"].items()})
    )


def check_precedence(row, quotas):
    if row["quota"] == "producer_byte_rate":
        throttle_ms = quotas.count("u", "c", row["bytes"], 0.0)
    else:
        throttle_ms, may_be_sent = quotas.settle_fetch("u", "c", 60131, 0.0)
        assert may_be_sent == (not row["levels_set"])
    assert throttle_ms == pytest.approx(row["throttle_time_ms"], abs=1), row


async def unheard(_path):
    """Of what this test changes itself, nobody is told."""


@pytest.mark.parametrize("registry", ["embedded", "zookeeper"])
async def test_the_recorded_precedence_of_quotas_in_a_registry(tmp_path, registry):
    overrides = {} if registry == "embedded" else {"zookeeper_connect": f"{shared_zookeeper().connect}{new_chroot()}"}
    async with running_broker(tmp_path / "data", **overrides) as broker:
        port = broker.acceptors["PLAINTEXT"].port
        entities = EntityConfigs(broker.services.registry_access.registry, notify=unheard)
        async with Admin(bootstrap_servers=f"127.0.0.1:{port}") as admin:
            for row in PRECEDENCE:
                rates = {level: {**NO_RATES, row["quota"]: row["levels_set"].get(level)} for level in LEVELS}
                assert not any((await admin.alter_client_quotas({entity(one): rates[one] for one in LEVELS})).values())
                await entities.load_all()
                quotas = Quotas()
                entities.subscribe(quotas.config_changed)
                check_precedence(row, quotas)


def test_without_quotas_nothing_is_active():
    one = quotas()
    assert not one.is_active
    one.config_changed("users/u", {"SCRAM-SHA-256": "secret"})
    one.config_changed("ips/10.0.0.1", {"connection_creation_rate": "1"})
    assert not one.is_active
    one.config_changed("users/u", bytes_per_s(1))
    assert one.is_active
    one.config_changed("users/u", {})
    assert not one.is_active


def test_all_clients_of_an_entity_share_its_quota():
    one = quotas(**{"users/u": bytes_per_s(10)})
    assert one.count("u", "a", 100, 0) == 0
    assert one.count("u", "b", 10, 0) == 1000
    assert one.count("u", None, 10, 0) == 2000
    assert one.count("v", "a", 10_000, 0) == 0


def test_with_a_default_each_has_a_quota_of_its_own():
    one = quotas(**{"users/<default>": bytes_per_s(10), "clients/<default>": {"consumer_byte_rate": "10"}})
    assert one.count("u", "a", 110, 0) == 1000
    assert one.count("v", "a", 100, 0) == 0
    assert one.settle_fetch("u", "a", 100, 0) == (0, True)
    assert one.settle_fetch("v", "a", 1, 0) == (100, False)  # the same client id
    assert one.settle_fetch("u", "b", 100, 0) == (0, True)


def test_a_client_without_an_id_has_no_quota_of_clients():
    one = quotas(**{"clients/<default>": bytes_per_s(1), "users/u/clients/<default>": bytes_per_s(1)})
    assert one.count("u", None, 1000, 0) == one.count("u", "", 1000, 0) == 0
    assert one.count("u", "c", 1000, 0) == 990_000


def test_names_are_compared_as_they_are():
    one = quotas(**{path_of({"user": "<default>"}): bytes_per_s(1), path_of({"user": "a b/c*"}): bytes_per_s(2)})
    assert one.count("u", "c", 1000, 0) == 0
    assert one.count("<default>", "c", 20, 0) == 10_000
    assert one.count("a b/c*", "c", 40, 0) == 10_000


def test_a_changed_quota_counts_for_what_was_sent_before():
    one = quotas(**{"users/u": bytes_per_s(1000)})
    assert one.count("u", "c", 1000, 0) == 0
    one.config_changed("users/u", bytes_per_s(10))
    assert one.count("u", "c", 0, 0) == 0  # not Produce
    assert one.count("u", "c", 10, 0) == 91_000
    one.config_changed("users/u", {})
    assert one.count("u", "c", 10_000, 0) == 0


def test_request_time_is_throttled_for_one_sample_at_most():
    one = quotas(**{"users/u": {"request_percentage": "1.0"}})
    assert one.count("u", "c", 0, 0.1) == 0  # 10 percent seconds in 10 s
    assert one.count("u", "c", 0, 0.001) == 100
    assert one.count("u", "c", 0, 0.5) == 1000
    assert one.settle_fetch("u", "c", 0, 0.5) == (1000, False)


def test_the_longest_time_of_both_quotas_counts():
    one = quotas(**{"users/u": {"request_percentage": "1.0", "producer_byte_rate": "10"}})
    assert one.count("u", "c", 1000, 1.0) == 90_000
    assert one.count("u", "c", 0, 1.0) == 1000


def test_the_bytes_of_an_answer_that_is_not_sent_do_not_count():
    one = quotas(**{"users/u": {"consumer_byte_rate": "5000"}})
    assert one.largest_fetch("u", "c", 95_000) == 50_000
    assert one.largest_fetch("u", "c", 20_000) == one.largest_fetch("v", "c", 20_000) == 20_000
    assert one.settle_fetch("u", "c", 50_060, 0) == (12, False)
    one.time_s += 0.018
    assert one.settle_fetch("u", "c", 50_060, 0) == (0, True)
    assert one.settle_fetch("u", "c", 50_060, 0) == (10_006, False)


def test_an_answer_that_is_too_large_for_any_window_is_sent_at_the_rate_of_the_quota():
    one = quotas(**{"users/u": {"consumer_byte_rate": "100"}})
    assert one.settle_fetch("u", "c", 100, 0) == (0, True)
    assert one.settle_fetch("u", "c", 5000, 0) == (41_000, False)
    one.time_s += 11
    for _ in range(3):
        assert one.settle_fetch("u", "c", 5000, 0) == (40_000, False)
        one.time_s += 40
        assert one.settle_fetch("u", "c", 5000, 0) == (10_000, False)
        one.time_s += 10
        assert one.settle_fetch("u", "c", 5000, 0) == (0, True)


def test_a_consumer_with_a_quota_of_nothing_gets_nothing():
    one = quotas(**{"users/u": {"consumer_byte_rate": "0"}})
    assert one.largest_fetch("u", "c", 1000) == 0
    assert one.settle_fetch("u", "c", 12, 0) == (INT_MAX, False)


@pytest.mark.parametrize("text", ["-1", "NaN", "many", ""])
def test_an_invalid_value_is_ignored_with_a_warning(text, caplog):
    one = quotas(**{"users/u": {"producer_byte_rate": text}})
    assert not one.is_active
    assert "producer_byte_rate of users/u is ignored" in caplog.text


def test_shares_that_are_not_used_any_more_are_removed(monkeypatch):
    monkeypatch.setattr(client_quotas, "PRUNE_AT", 10)
    monkeypatch.setattr(client_quotas, "MAX_CACHED", 20)
    one = quotas(**{"clients/<default>": bytes_per_s(10) | {"controller_mutation_rate": "1"}})
    one._prune_at = 10
    for number in range(1000):
        one.time_s += 1
        one.count("u", f"client-{number}", 1, 0)
        assert len(list(one.shares(1000))) < 50
    assert one.count("u", "client-999", 109, 0) == 1000  # what is in use stays


def test_throttled_requests_are_counted():
    one = quotas(**{"users/u": bytes_per_s(10)})
    for size in (50, 50, 10, 10):
        one.count("u", "c", size, 0)
    [share] = one.shares(10)
    assert (share.quota_name, share.user, share.client_id) == ("producer_byte_rate", "u", "")
    assert (share.throttled, share.throttled_ms) == (2, 3000)
    assert math.isclose(share.measure.rate(one.time_s), 12)
    assert list(one.shares(0)) == []


def test_a_long_client_id_is_limited_and_not_kept():
    quotas = Quotas(**{"clients/<default>": {"producer_byte_rate": "10"}})
    long_id = "\N{EARTH GLOBE EUROPE-AFRICA}" * 8000
    assert quotas.count("u", long_id, 1000, 0) > 0
    assert quotas.count("u", long_id, 1, 0) > 0  # the same share
    assert quotas.count("u", long_id + "x", 1, 0) == 0
    [one, other] = quotas.shares(10)
    assert len(one.client_id) == len(other.client_id) == 64
    assert not quotas._limits


def test_a_connection_remembers_the_limits_of_its_client():
    one = quotas(**{"users/u": bytes_per_s(1000)})
    request = Request("u", "c", 100, 0.0, one.time_s)
    assert one.settle(request, True, one.time_s) == 0
    assert request.limits is one.of("u", "c")
    request.client_id = "d"
    assert one.settle(request, True, one.time_s) == 0
    assert request.limits is one.of("u", "d")
    assert request.limits is not one.of("u", "c")


def test_a_changed_quota_is_effective_for_the_next_request_of_a_connection():
    one = quotas(**{"users/u": bytes_per_s(1e9)})
    request = Request("u", "c", 20_000, 0.0, one.time_s)
    assert one.settle(request, True, one.time_s) == 0
    one.config_changed("users/u", bytes_per_s(1000))
    assert one.settle(request, True, one.time_s) > 0
    one.config_changed("users/u", {})
    assert one.settle(request, True, one.time_s) == 0


def test_long_client_ids_are_not_remembered():
    one = quotas(**{"users/u": bytes_per_s(1000)})
    request = Request("u", "c" * (client_quotas.MAX_CLIENT_ID + 1), 100, 0.0, one.time_s)
    one.settle(request, True, one.time_s)
    assert request.limits is UNKNOWN_LIMITS
