"""One form for each address."""

import pytest

from security.addresses import is_address, normal_address


@pytest.mark.parametrize(
    ("address", "normal"),
    [
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::1", "::1"),
        ("2001:DB8:0:0:0:0:0:7", "2001:db8::7"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.01", "192.0.2.01"),
        ("*", "*"),
        ("host.example.org", "host.example.org"),
    ],
)
def test_normal_form(address, normal):
    assert normal_address(address) == normal


def test_names_of_hosts_are_no_addresses():
    assert is_address("192.0.2.1")
    assert is_address("0:0:0:0:0:0:0:1")
    assert not is_address("localhost")
    assert not is_address("")
