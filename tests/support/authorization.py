"""Brokers with an authorizer, and clients whose user is set by the test instead of a login."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from broker.authorization.registry_authorizer import RegistryAuthorizer
from broker.broker import Broker
from broker.settings.checks import ACL_AUTHORIZER
from protocol.json import to_json
from security.acls.binding import CLUSTER_NAME, AccessRule, AclBinding, AclFilter, ResourcePattern
from security.acls.types import Operation, PatternType, Permission, ResourceType
from security.principal import Principal
from support.broker import running_broker
from support.polling import until
from support.wire import ConnectionClosedError, WireClient, decode_answer

ADMIN = "User:admin"


@contextlib.asynccontextmanager
async def authorized_broker(log_dir: Path, **overrides: str) -> AsyncIterator[Broker]:
    """Run a broker with Kafka's AclAuthorizer. Brokers and clients without a user set are super users."""
    own = {"authorizer_class_name": ACL_AUTHORIZER, "super_users": f"{ADMIN};User:ANONYMOUS"}
    async with running_broker(log_dir, **own | overrides) as broker:
        yield broker


@contextlib.asynccontextmanager
async def client_of(broker: Broker, principal: str, listener: str = "PLAINTEXT") -> AsyncIterator[WireClient]:
    """A connection of a user."""
    acceptor = broker.acceptors[listener]
    client = await WireClient.open(f"127.0.0.1:{acceptor.port}")
    try:
        port = client.writer.get_extra_info("sockname")[1]

        def accepted() -> bool:
            found = [one for one in acceptor.connections if one.port == port]
            for one in found:
                one.principal = Principal.parse(principal)
            return bool(found)

        await until(accepted, "the connection is accepted")
        yield client
    finally:
        client.close()


def authorizer_of(broker: Broker) -> RegistryAuthorizer:
    """The AclAuthorizer of a broker."""
    assert broker.services is not None
    assert broker.services.access is not None
    authorizer = broker.services.access.authorizer
    assert isinstance(authorizer, RegistryAuthorizer)
    return authorizer


def put_acls(broker: Broker, bindings: Iterable[AclBinding]) -> None:
    """Let these be the only ACLs that the broker knows, past the registry: for tests of many sets."""
    authorizer = authorizer_of(broker)
    for pattern in authorizer.rules.patterns():
        authorizer.rules.set(pattern, ())
    for pattern, rule in bindings:
        authorizer.rules.set(pattern, authorizer.rules.rules_of(pattern) | {rule})
    authorizer.changed()


def allow(
    principal: str, operation: str, resource: str, name: str = CLUSTER_NAME, pattern: str = "literal", host: str = "*"
) -> AclBinding:
    """An ACL, with the names of Kafka: `allow("User:alice", "Read", "Topic", "t")`."""
    return AclBinding(
        ResourcePattern(member(ResourceType, resource), name, PatternType[pattern.upper()]),
        AccessRule(principal, host, member(Operation, operation), Permission.ALLOW),
    )


def deny(principal: str, operation: str, resource: str, name: str = CLUSTER_NAME) -> AclBinding:
    """The same ACL, denying."""
    pattern, rule = allow(principal, operation, resource, name)
    return AclBinding(pattern, rule._replace(permission=Permission.DENY))


def member(kind, label):
    """The member of an enumeration with this label."""
    return next(one for one in kind if one.label == label)


def acls_of(broker: Broker) -> set[AclBinding]:
    """The ACLs that a broker knows."""
    return set(authorizer_of(broker).describe(AclFilter()))


async def send_recorded(client: WireClient, one: dict[str, Any]) -> Any:
    """Send a recorded frame; return the answer as JSON, or "closed"."""
    data = bytes.fromhex(one["request"])
    client.send_raw(struct.pack(">i", len(data)) + data)
    try:
        data = await client.receive_raw()
    except ConnectionClosedError:
        return "closed"
    version = one["api_version"]
    return to_json(decode_answer(data, one["api_key"], version)[1], version)
