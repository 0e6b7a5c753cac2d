"""How long connecting may take, and that it is given up then."""

import asyncio
import random

import pytest

from client.admin.admin import Admin
from client.errors import BrokerUnreachableError, InvalidOptionError, NoBrokersAvailableError
from client.wire.network import AsyncioNetwork
from client.wire.node_connection import ConnectionOptions
from client.wire.setup_timeouts import SetupTimeouts
from support.deadlines import DEADLINE_S
from support.fake_broker import FakeBroker

ONE, OTHER = ("one", 9092), ("other", 9092)


class SlowNetwork(AsyncioNetwork):
    """A network in which connecting takes for ever, until it is told otherwise."""

    is_slow = True

    async def connect(self, protocol_factory, host, port, *, tls=None):
        if self.is_slow:
            await asyncio.get_running_loop().create_future()
        return await super().connect(protocol_factory, host, port, tls=tls)


class Middle(random.Random):
    """No jitter."""

    def uniform(self, a, b):
        return (a + b) / 2


def test_times_double_for_each_broker_and_begin_again():
    times = SetupTimeouts(100, 300, Middle())
    found = []
    for _ in range(4):
        found.append(round(times.next_s(ONE), 6))
        times.failed(ONE)
    assert found == [0.1, 0.2, 0.3, 0.3]
    assert times.next_s(OTHER) == pytest.approx(0.1)
    times.succeeded(ONE)
    assert times.next_s(ONE) == pytest.approx(0.1)


def test_times_are_spread():
    times = SetupTimeouts(100, 300, random.Random(1))
    found = {times.next_s(ONE) for _ in range(100)}
    assert len(found) > 90
    assert 0.08 <= min(found) < max(found) <= 0.12


async def test_a_connection_has_the_time_of_its_broker():
    network = SlowNetwork()
    times = SetupTimeouts(1, 2, Middle())
    async with FakeBroker({"t": 1}) as broker:
        address = ("127.0.0.1", broker.port)
        options = ConnectionOptions(network, "test", request_timeout_s=DEADLINE_S, setup=times)
        for expected in ("0.001", "0.002", "0.002"):
            with pytest.raises(BrokerUnreachableError, match=rf"no answer within {expected} s"):
                await options.open(address)
        network.is_slow = False
        times.failed(address)
        quick = options._replace(setup=(new := SetupTimeouts(60_000)))
        new.failed(address)
        await (await quick.open(address)).close()
        assert new.next_s(address) <= 60 * 1.2, "the failures are forgotten"


async def test_a_client_gives_up_after_its_option():
    admin = Admin(
        bootstrap_servers="127.0.0.1:9",
        network=SlowNetwork(),
        socket_connection_setup_timeout_ms=1,
        socket_connection_setup_timeout_max_ms=1,
        retry_backoff_ms=1,
    )
    with pytest.raises(NoBrokersAvailableError, match=r"no answer within 0\.00"):
        await admin.start()
    await admin.close()


@pytest.mark.parametrize("name", ["socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"])
def test_a_time_must_be_positive(name):
    with pytest.raises(InvalidOptionError, match=name):
        Admin(bootstrap_servers="127.0.0.1:9", **{name: 0})
