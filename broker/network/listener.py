"""Listeners: the addresses that a broker listens on, and those that it advertises.

The format is `NAME://host:port`, separated by commas. NAME is upper case: a security protocol, or a name that
`listener.security.protocol.map` maps to one. An IPv6 host may be in brackets. An empty host means every interface; as
an advertised host, it means the name of this machine, which the broker fills in. Port 0 means any free port.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping

from protocol.host_port import HostPort, unbracketed
from storage.setting import ConfigError

PLAINTEXT = "PLAINTEXT"
SASL_PLAINTEXT = "SASL_PLAINTEXT"
SASL_PROTOCOLS = (SASL_PLAINTEXT, "SASL_SSL")
TLS_PROTOCOLS = ("SSL", "SASL_SSL")
SECURITY_PROTOCOLS = (PLAINTEXT, "SSL", *SASL_PROTOCOLS)
_HOST_CHARACTERS = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-%._:")


class Listener:
    """One listener: `name` (upper case), `host` ("" for every interface), `port`, `security_protocol`."""

    __slots__ = ("host", "name", "port", "security_protocol")

    def __init__(self, name: str, host: str, port: int, security_protocol: str = PLAINTEXT) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Listener) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Listener({self})"

    def __str__(self) -> str:
        """Return the listener as in a properties file and in the znode of a broker."""
        return f"{self.name}://{HostPort(self.host, self.port)}"

    def at(self, host: str | None = None, port: int | None = None) -> Listener:
        """Return the same listener at another host or port, such as the port that the system chose for 0."""
        return Listener(
            self.name,
            self.host if host is None else host,
            self.port if port is None else port,
            self.security_protocol,
        )

    def _key(self) -> tuple[str, str, int, str]:
        return self.name, self.host, self.port, self.security_protocol


def parse_protocol_map(text: str) -> dict[str, str]:
    """Parse `NAME:PROTOCOL,...`. Return security protocols by listener name. Raises ConfigError."""
    name = "listener.security.protocol.map"
    protocols: dict[str, str] = {}
    for element in _elements(text):
        listener, colon, protocol = element.rpartition(":")
        protocol = protocol.strip().upper()
        if not colon:
            raise ConfigError(name, text, f"{element} must be NAME:PROTOCOL")
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(name, text, f"the protocol must be one of {', '.join(SECURITY_PROTOCOLS)}")
        protocols[listener.strip().upper()] = protocol
    return protocols


def parse_listeners(name: str, text: str, protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    """Parse the listeners in the value of the setting `name`. Raises ConfigError."""
    listeners = tuple(_listener(name, text, element, protocols) for element in _elements(text))
    names = [listener.name for listener in listeners]
    for listener in names:
        if names.count(listener) > 1:
            raise ConfigError(name, text, f"each listener needs its own name: {listener} occurs twice")
    return listeners


def check_ports(name: str, listeners: tuple[Listener, ...]) -> None:
    """Raise ConfigError if two listeners share a port, unless one has an IPv4 and the other an IPv6 address."""
    by_port: dict[int, list[Listener]] = {}
    for listener in listeners:
        if listener.port:
            by_port.setdefault(listener.port, []).append(listener)
    for port, sharing in by_port.items():
        versions = sorted(_ip_version(listener.host) for listener in sharing)
        if len(sharing) > 1 and versions != [4, 6]:
            rule = f"port {port} occurs twice: only one IPv4 and one IPv6 address may share a port"
            raise ConfigError(name, ",".join(map(str, listeners)), rule)


def _listener(name: str, text: str, element: str, protocols: Mapping[str, str]) -> Listener:
    listener, separator, address = element.partition("://")
    host, colon, port = address.rpartition(":")
    host = unbracketed(host)
    if not (listener and separator and colon and port.isascii() and port.isdigit() and _is_host(host)):
        raise ConfigError(name, text, f"{element} must be NAME://host:port")
    if int(port) > 65535:
        raise ConfigError(name, text, f"port {port} must be at most 65535")
    listener = listener.upper()
    protocol = protocols.get(listener)
    if protocol is None:
        raise ConfigError(name, text, f"listener.security.protocol.map has no security protocol for {listener}")
    return Listener(listener, host, int(port), protocol)


def _elements(text: str) -> list[str]:
    return [element for part in text.split(",") if (element := part.strip())]


def _is_host(host: str) -> bool:
    return all(character in _HOST_CHARACTERS for character in host)


def _ip_version(host: str) -> int:
    """Return 4 or 6 for an address; 0 for a name, or for every interface."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).version
    except ValueError:
        return 0
