"""The ACLs of Kafka's znodes: `zookeeper.set.acl`, and the tool that changes a tree that exists.

The creator may do everything; others may read, except what contains passwords and keys. `/consumers` stays open, as
consumers write there. The rules are those of Kafka 3.9, which compares paths by their beginning.
"""

from __future__ import annotations

from typing import Final

from registry.interface import OPEN_ACL, Acl, Permission

CREATOR: Final = Acl(Permission.ALL, "auth", "")
"""ZooKeeper replaces it by an entry for each identity of the session: `sasl:<user>`, `x509:<subject>`."""

_WORLD_READS: Final = Acl(Permission.READ, "world", "anyone")
_CONSUMERS: Final = "/consumers"

SENSITIVE_PATHS: Final = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""Others may not read what is at and below these paths: SCRAM keys, passwords of dynamic settings, tokens."""

PROTECTED_ROOTS: Final = (
    "/admin",
    "/brokers",
    "/cluster",
    "/config",
    "/controller",
    "/controller_epoch",
    "/isr_change_notification",
    "/latest_producer_id_block",
    "/log_dir_event_notification",
    "/delegation_token",
    "/kafka-acl-extended",
    "/migration",
    "/feature",
    "/kafka-acl",
    "/kafka-acl-changes",
    "/kafka-acl-extended-changes",
)
"""What Kafka's zookeeper-security-migration changes, each with everything below it; and the root itself."""


def default_acl(path: str, *, is_protected: bool = True) -> tuple[Acl, ...]:
    """Return the ACL of a znode of Kafka's. is_protected: False gives the ACL of a tree without protection."""
    if not is_protected or path == _CONSUMERS:
        return OPEN_ACL
    if path.startswith(SENSITIVE_PATHS):
        return (CREATOR,)
    return (CREATOR, _WORLD_READS)
