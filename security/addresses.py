"""Addresses of hosts, in one form for each."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address


def is_address(text: str) -> bool:
    """Return whether a text is an IP address, and not for example the name of a host."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def normal_address(address: str) -> str:
    """Return an IP address in its usual form, an IPv4 address that is mapped to IPv6 as IPv4; any other text as it is.

    Java writes `0:0:0:0:0:0:0:1` where sockets of Python have `::1`.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(parsed)
