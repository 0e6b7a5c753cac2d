"""Where a ZooKeeper consumer connects to a broker: at the first listener with its security protocol."""

import pytest

from client.zookeeper.layout import TodaysLayout
from protocol.host_port import HostPort
from registry.znodes.brokers import BrokerZnode, Endpoint

BROKER = BrokerZnode(
    endpoints=(
        Endpoint("INTERNAL", "SASL_SSL", "inside", 1),
        Endpoint("PLAINTEXT", "PLAINTEXT", "plain", 2),
        Endpoint("CLIENTS", "SASL_SSL", "outside", 3),
    ),
    timestamp_ms=0,
)


@pytest.mark.parametrize(
    ("protocol", "address"),
    [("PLAINTEXT", HostPort("plain", 2)), ("SASL_SSL", HostPort("inside", 1)), ("SSL", None)],
)
def test_the_listener_has_the_security_protocol(protocol, address):
    assert TodaysLayout(protocol).address(BROKER.encode(), BrokerZnode.path(0)) == address
