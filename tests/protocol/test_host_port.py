import pytest

from protocol.host_port import HostPort, bracketed, unbracketed


@pytest.mark.parametrize(
    ("address", "text"),
    [(HostPort("broker-1.example", 9092), "broker-1.example:9092"), (HostPort("::1", 0), "[::1]:0")],
)
def test_an_ipv6_address_is_in_brackets(address, text):
    assert str(address) == f"{address}" == text


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "fe80::1%eth0", ""])
def test_brackets_are_added_and_removed(host):
    assert unbracketed(bracketed(host)) == host
