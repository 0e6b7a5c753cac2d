"""Znodes of brokers: the live brokers with their endpoints, and the counter for generated broker ids."""

from __future__ import annotations

from typing import Any, NamedTuple

from protocol.host_port import HostPort, unbracketed
from registry.znodes.java_order import immutable_map_order, properties_order
from registry.znodes.znode import Content, EmptyZnode, Znode, parse_integer, to_json

# Without a map (versions 2 and 3), the name of a listener is its security protocol.
_DEFAULT_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_NO_PORT = -1


class BrokersZnode(EmptyZnode):
    """Parent of ids, topics and seqid."""

    TEMPLATE = "/brokers"


class BrokerIdsZnode(EmptyZnode):
    """Parent of the live brokers."""

    TEMPLATE = "/brokers/ids"


class BrokerSequenceIdZnode(EmptyZnode):
    """Set once for each generated broker id: the version of its stat is the id."""

    TEMPLATE = "/brokers/seqid"


class Endpoint(NamedTuple):
    """One advertised listener of a broker."""

    listener: str
    security_protocol: str
    host: str | None
    port: int

    def __str__(self) -> str:
        """Return Kafka's connection string; an IPv6 host is in brackets."""
        return f"{self.listener}://{HostPort(self.host or '', self.port)}"


class BrokerZnode(Znode):
    """A live broker: ephemeral, and its czxid is the broker's epoch.

    Version 1 has one plaintext host and port; version 2 adds endpoints, 3 the rack, 4 the map of listeners to security
    protocols, 5 features. Kafka writes version 5 from inter.broker.protocol.version 2.7, before that version 4. `host`
    and `port` are those of the first plaintext endpoint, for clients that know version 1 only.
    """

    TEMPLATE = "/brokers/ids/{broker}"

    endpoints: tuple[Endpoint, ...]
    timestamp_ms: int
    rack: str | None = None
    jmx_port: int = -1
    features: dict[str, tuple[int, int]] = {}  # name: (minimum, maximum) version # noqa: RUF012
    version: int = 5

    @staticmethod
    def path(broker: int) -> str:
        """Path for a broker id."""
        return f"/brokers/ids/{broker}"

    def encode(self) -> bytes:
        """JSON in the order of Kafka's hash map."""
        fields: dict[str, Any] = {}
        if self.version >= 5:
            fields["features"] = {
                # In the order of a Java HashMap with two keys.
                name: {key: dict(zip(_RANGE, self.features[name], strict=True))[key] for key in _RANGE_ORDER}
                for name in self.features
            }
        if self.version >= 4:
            protocols = {endpoint.listener: endpoint.security_protocol for endpoint in self.endpoints}
            order = immutable_map_order(protocols)
            fields["listener_security_protocol_map"] = {name: protocols[name] for name in order}
        if self.version >= 2:
            fields["endpoints"] = [str(endpoint) for endpoint in self.endpoints]
        if self.rack is not None and self.version >= 3:
            fields["rack"] = self.rack
        plaintext = [endpoint for endpoint in self.endpoints if endpoint.security_protocol == "PLAINTEXT"]
        fields["jmx_port"] = self.jmx_port
        fields["port"] = plaintext[0].port if plaintext else _NO_PORT
        fields["host"] = plaintext[0].host if plaintext else None
        fields["version"] = self.version
        fields["timestamp"] = str(self.timestamp_ms)
        return to_json(fields)

    @classmethod
    def decode(cls, data: bytes | None, path: str) -> BrokerZnode:
        """Read versions 1 and up."""
        content = Content.parse(data, path)
        version = content.integer("version", 1)
        if version == 1:
            host, port = content.string("host"), content.integer("port", -1, 65535)
            endpoints: tuple[Endpoint, ...] = (Endpoint("PLAINTEXT", "PLAINTEXT", host, port),)
        else:
            protocols = dict(zip(_DEFAULT_PROTOCOLS, _DEFAULT_PROTOCOLS, strict=True))
            if content.has("listener_security_protocol_map"):
                protocols = content.string_map("listener_security_protocol_map")
            endpoints = tuple(_endpoint(content, text, protocols) for text in content.strings("endpoints"))
        features = content.object("features") if content.has("features") else None
        return cls(
            endpoints=endpoints,
            timestamp_ms=content.long_text("timestamp"),
            rack=content.string("rack") if content.has("rack") else None,
            jmx_port=content.integer("jmx_port"),
            features={name: _range(features.object(name)) for name in features.names()} if features else {},
            version=version,
        )


_RANGE = ("min_version", "max_version")
_RANGE_ORDER = properties_order(_RANGE)


def _range(content: Content) -> tuple[int, int]:
    return content.integer("min_version", 0, 32767), content.integer("max_version", 0, 32767)


def _endpoint(content: Content, text: str, protocols: dict[str, str]) -> Endpoint:
    listener, separator, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    if not separator or not colon:
        content.fail("endpoints", f"must be of the form LISTENER://host:port: {text!r}")
    if listener not in protocols:
        content.fail("listener_security_protocol_map", f"must name the protocol of listener {listener}")
    number = parse_integer(port, content.path, f"the port in {text!r}", 32)
    return Endpoint(listener, protocols[listener], unbracketed(host) or None, number)
