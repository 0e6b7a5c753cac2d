"""Convert the values of Kafka 0.7's znodes to JSON documents and back."""

import json
from typing import Any

from registry.znodes.consumers import PATTERNS, STATIC, thread_counts
from registry.znodes.legacy07 import LegacyBrokerZnode, LegacyConsumerZnode
from registry.znodes.tree import LEGACY_07, znode_class
from registry.znodes.znode import Content


def legacy_document(path: str, data: bytes) -> dict[str, Any] | None:
    """Return the fields of a znode that 0.7 wrote as one line of text; None if the znode has no such fields.

    Raises ZnodeFormatError.
    """
    znode = znode_class(path, LEGACY_07)
    if znode is LegacyBrokerZnode:
        broker = LegacyBrokerZnode.decode(data, path)
        return {"creator": broker.creator, "host": broker.host, "port": broker.port}
    if znode is LegacyConsumerZnode:
        consumer = LegacyConsumerZnode.decode(data, path)
        if consumer.pattern != STATIC:
            return {"pattern": consumer.pattern, "subscription": consumer.subscription}
    return None


def legacy_bytes(path: str, data: bytes) -> bytes:
    """Return the bytes to write for a user's value: a document is converted to 0.7's text, other values stay unchanged.

    Raises ZnodeFormatError if a field of the document is missing or invalid.
    """
    znode = znode_class(path, LEGACY_07)
    if znode not in (LegacyBrokerZnode, LegacyConsumerZnode) or not data.lstrip().startswith(b"{"):
        return data
    content = Content.parse(data, path)
    if znode is LegacyBrokerZnode:
        port = content.integer("port", 1, 65535)
        creator, host = content.string("creator"), content.string("host")
        return LegacyBrokerZnode(creator=creator, host=host, port=port).encode()
    if not _is_pattern(data):
        return LegacyConsumerZnode(subscription=thread_counts(content)).encode()
    pattern, subscription = content.string("pattern"), thread_counts(content.object("subscription"))
    if pattern not in PATTERNS:
        content.fail("pattern", f"must be one of {', '.join(PATTERNS)}")
    if pattern != STATIC and len(subscription) != 1:
        content.fail("subscription", "must be one regular expression with its number of threads")
    return LegacyConsumerZnode(subscription=subscription, pattern=pattern).encode()


def _is_pattern(data: bytes) -> bool:
    """Whether `data` is a document of `legacy_document`, not thread counts of topics named like its fields."""
    return isinstance(json.loads(data).get("subscription"), dict)
