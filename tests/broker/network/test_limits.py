"""How many connections there may be, and how many bytes of requests, with a clock that the test turns."""

import json

import pytest

from broker.network.limits import ConnectionQuota, ListenerLimits, MemoryBudget
from broker.quotas.address_rates import AddressRates
from broker.quotas.rates import INT_MAX, Window
from support.reference import REFERENCE


class Client:
    def __init__(self, host="10.0.0.1"):
        self.host = host
        self.closed = False
        self.held = False
        self.reason = None

    def hold(self):
        assert not self.held
        self.held = True

    def admit(self):
        assert self.held
        self.held = False

    def close(self, reason):
        self.closed = True
        self.reason = reason


class Clock:
    """Seconds, and what is to be done at which."""

    def __init__(self):
        self.now_s = 1000.0
        self.timers = []

    def call_later(self, delay_s, work):
        self.timers.append((self.now_s + delay_s, work))

    def advance(self, seconds):
        end_s = self.now_s + seconds
        while due := sorted((one for one in self.timers if one[0] <= end_s), key=lambda one: one[0]):
            self.timers.remove(due[0])
            self.now_s = due[0][0]
            due[0][1]()
        self.now_s = end_s


def quota(clock=None, **limits):
    clock = clock or Clock()
    return ConnectionQuota(now_s=lambda: clock.now_s, call_later=clock.call_later, **limits)


def arrive(quota, *clients, **how):
    for client in clients:
        quota.connected(client, **how)
    return clients


def test_without_limits_every_connection_is_accepted():
    limits = quota()
    clients = arrive(limits, *(Client() for _ in range(100)))
    assert not any(client.held or client.closed for client in clients)
    assert limits.total == 100


def test_connections_above_the_limit_are_accepted_in_order_of_arrival():
    limits = quota(max_connections=2)
    a, b, c, d = arrive(limits, *(Client() for _ in range(4)))
    assert [one.held for one in (a, b, c, d)] == [False, False, True, True]
    limits.disconnected(b)
    assert [one.held for one in (a, c, d)] == [False, False, True]
    limits.disconnected(d)  # gives up
    limits.disconnected(a)
    limits.disconnected(c)
    assert limits.total == 0
    assert not arrive(limits, Client())[0].held


def test_a_waiting_connection_that_closes_frees_no_slot():
    limits = quota(max_connections=1)
    a, b, c = arrive(limits, Client(), Client(), Client())
    limits.disconnected(b)
    assert c.held
    limits.disconnected(a)
    assert not c.held


def test_brokers_never_wait_for_a_slot():
    limits = quota(max_connections=1, creation_rate_per_s=0)
    arrive(limits, Client(), Client())
    assert not arrive(limits, Client("10.0.0.9"), is_exempt=True, listener="BROKERS")[0].held


def test_the_limit_of_an_address_closes_the_new_connection():
    limits = quota(max_per_ip=2, per_ip_overrides={"10.0.0.2": 1, "10.0.0.3": 3, "10.0.0.4": 0})
    outcomes = {}
    for number in (1, 2, 3, 4):
        clients = arrive(limits, *(Client(f"10.0.0.{number}") for _ in range(4)))
        outcomes[number] = [client.closed for client in clients]
    assert outcomes == {
        1: [False, False, True, True],
        2: [False, True, True, True],
        3: [False, False, False, True],
        4: [True, True, True, True],
    }


def test_a_connection_refused_for_its_address_counts_until_it_is_closed():
    limits = quota(max_per_ip=1)
    a, b = arrive(limits, Client(), Client())
    assert b.closed
    assert "max.connections.per.ip" in b.reason
    limits.disconnected(b)
    [c] = arrive(limits, Client())
    assert c.closed
    limits.disconnected(c)
    limits.disconnected(a)
    assert not arrive(limits, Client())[0].closed


def recorded(start):
    rows = [json.loads(line) for line in (REFERENCE / "security" / "throttle.jsonl").read_text().splitlines()]
    [one] = [row for row in rows if row["experiment"].startswith(start)]
    return one["rows"]


def test_the_recorded_delays_of_a_listener():
    """Connections one after the other, each answered when it is admitted."""
    clock = Clock()
    limits = quota(clock)
    loose = {"max_connections": INT_MAX, "max_per_ip": INT_MAX, "per_ip_overrides": {}, "creation_rate_per_s": INT_MAX}
    limits.set_limits(**loose, of_listeners={"LIMIT": ListenerLimits(creation_rate_per_s=5)})
    start_s = clock.now_s
    wrong = []
    for at_ms, after_ms, outcome in recorded("listener.name.limit.max.connection.creation.rate=5"):
        assert outcome == "answered"
        clock.advance(max(0.0, start_s + at_ms / 1000 - clock.now_s))
        client = Client()
        limits.connected(client, listener="LIMIT")
        waited_ms = 0
        while client.held:
            clock.advance(0.001)
            waited_ms += 1
        if abs(waited_ms - after_ms) > 10:
            wrong.append((at_ms, after_ms, waited_ms))
        limits.disconnected(client, listener="LIMIT")
    assert wrong == []


def test_the_recorded_connections_of_an_address():
    """Those above the quota are held for a while and closed. Kafka looks every 500 ms whether it is to close one."""
    clock = Clock()
    rates = AddressRates(Window(11, 1.0), lambda: clock.now_s)
    rates.config_changed("ips/<default>", {"connection_creation_rate": "3"})
    limits = quota(clock, address_rates=rates)
    start_s = clock.now_s
    for at_ms, after_ms, outcome in recorded("ip quota connection_creation_rate=3"):
        clock.advance(max(0.0, start_s + at_ms / 1000 - clock.now_s))
        client = Client()
        limits.connected(client)
        assert client.held == (outcome == "closed"), at_ms
        if client.held:
            clock.advance(min(after_ms / 1000, 1.0))
            assert client.closed
            assert "connection_creation_rate" in client.reason
        limits.disconnected(client)
    assert limits.total == 0


def test_an_address_that_leaves_while_it_is_held_is_forgotten():
    clock = Clock()
    rates = AddressRates(Window(11, 1.0), lambda: clock.now_s)
    rates.config_changed("ips/10.0.0.1", {"connection_creation_rate": "0"})
    limits = quota(clock, address_rates=rates, max_connections=1)
    [client] = arrive(limits, Client())
    assert client.held
    limits.disconnected(client)
    clock.advance(2)
    assert not client.closed
    assert not arrive(limits, Client("10.0.0.2"))[0].held  # the slot is free


def test_listeners_have_limits_of_their_own_beside_those_of_the_broker():
    limits = quota()
    limits.set_limits(
        max_connections=3,
        max_per_ip=INT_MAX,
        per_ip_overrides={},
        creation_rate_per_s=INT_MAX,
        of_listeners={"FEW": ListenerLimits(max_connections=1), "MORE": ListenerLimits()},
    )
    few, more = limits.of_listener("FEW"), limits.of_listener("MORE")
    a, b, c, d, e = (Client() for _ in range(5))
    few.connected(a)
    few.connected(b)
    assert [a.held, b.held] == [False, True]
    for client in (c, d, e):
        more.connected(client)
    assert [c.held, d.held, e.held] == [False, False, True]
    few.disconnected(a)
    assert [b.held, e.held] == [False, True]  # the first listener has a slot again, the broker has not
    more.disconnected(c)
    assert not e.held


def test_the_rate_of_new_connections_is_limited():
    clock = Clock()
    limits = quota(clock, creation_rate_per_s=1)
    clients = arrive(limits, *(Client() for _ in range(14)))
    let_in = []
    for _ in range(4):
        let_in.append(sum(not client.held for client in clients))
        clock.advance(1.001)
    assert let_in == [10, 11, 12, 13]
    clock.advance(1.001)
    assert not any(client.held for client in clients)
    assert clock.timers == []


def test_connections_that_close_while_they_wait_for_the_rate_are_forgotten():
    clock = Clock()
    limits = quota(clock, creation_rate_per_s=1)
    arrive(limits, *(Client() for _ in range(10)))
    _a, b, c = arrive(limits, Client(), Client(), Client())
    limits.disconnected(b)
    clock.advance(1.1)
    assert c.held
    clock.advance(1.1)
    assert not c.held
    assert limits.total == 12


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"max_connections": 0}, {"max_connections": 5}),
        ({"creation_rate_per_s": 0}, {"creation_rate_per_s": 1000}),
    ],
)
def test_higher_limits_admit_waiting_connections(before, after):
    clock = Clock()
    limits = quota(clock, **before)
    clients = arrive(limits, *(Client() for _ in range(5)))
    clock.advance(0.9)
    assert all(client.held for client in clients)
    loose = {"max_connections": INT_MAX, "max_per_ip": INT_MAX, "per_ip_overrides": {}, "creation_rate_per_s": INT_MAX}
    limits.set_limits(**loose | after)
    clock.advance(0.05)  # less than is left of the delay under the old limit
    assert not any(client.held for client in clients)


# -- memory ----------------------------------------------------------------------------------------------------------


def test_without_a_limit_no_request_waits():
    budget = MemoryBudget()
    clients = [Client() for _ in range(10)]
    for client in clients:
        budget.reserve(client, 1 << 40)
    assert not any(client.held for client in clients)
    assert budget.reserved_bytes == 10 << 40


def test_the_last_request_may_exceed_the_memory_limit_and_the_next_waits():
    budget = MemoryBudget(100)
    a, b, c, d = (Client() for _ in range(4))
    for client, size in ((a, 99), (b, 5000), (c, 1), (d, 1)):
        budget.reserve(client, size)
    assert [one.held for one in (a, b, c, d)] == [False, False, True, True]
    budget.release(a)  # still overdrawn
    assert c.held
    budget.release(b)
    assert [c.held, d.held] == [False, False]
    assert budget.reserved_bytes == 2


def test_freed_memory_goes_to_waiting_requests_in_order_of_arrival():
    budget = MemoryBudget(100)
    clients = [Client() for _ in range(5)]
    for client in clients:
        budget.reserve(client, 100)
    budget.release(clients[0])
    assert [client.held for client in clients] == [False, False, True, True, True]
    budget.release(clients[3])  # gives up waiting
    budget.release(clients[1])
    budget.release(clients[2])
    assert [client.held for client in clients] == [False, False, False, True, False]
    budget.release(clients[4])
    assert budget.reserved_bytes == 0


def test_releasing_unreserved_memory_has_no_effect():
    budget = MemoryBudget(100)
    budget.release(Client())
    assert budget.reserved_bytes == 0
