"""The decisions for requests: the authorizer's, cached, and written to the audit log."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import Protocol
from weakref import WeakValueDictionary

from broker.authorization.asker import Asker, Client
from broker.authorization.audit import log_allowed, log_denied
from broker.authorization.audit import logger as audit_logger
from broker.authorization.authorizer import Authorizer
from security.acls.types import OPERATIONS_OF, Operation, ResourceType
from security.principal import Principal

logger = logging.getLogger(__name__)

MAX_CACHED = 20_000
"""Decisions in the cache: clients choose names, so it is emptied at this size."""
MAX_CACHED_NAME = 249
"""The length of the longest name whose decisions are cached: that of a topic. Clients choose names of any length."""

MAX_WRITABLE = 100
"""Topics that are remembered for a user: each request looks into a set, and no client can make it large."""

_Key = tuple[Principal, str, Operation, ResourceType, str]


class Writer(Client, Protocol):
    """A connection: it remembers what its user may write to."""

    writable: Collection[str]
    """Topics that need no decision. Others may be allowed, too."""


class Access:
    """Asks the authorizer on behalf of the clients of a broker."""

    def __init__(self, authorizer: Authorizer) -> None:
        self.authorizer = authorizer
        self.generation = 0
        """A number that changes when decisions may have changed."""
        self._decisions: dict[_Key, bool] = {}
        self._writable: WeakValueDictionary[tuple[Principal, str], set[str]] = WeakValueDictionary()
        authorizer.changed = self.forget

    def forget(self) -> None:
        """Drop the cached decisions."""
        self._decisions.clear()
        for writable in self._writable.values():
            writable.clear()
        self.generation += 1

    def remember_writable(self, client: Writer, topics: Iterable[str]) -> None:
        """Remember that the user of a connection may write to topics, until `forget`."""
        key = (client.principal, client.host)
        writable = self._writable.get(key)
        if writable is None:
            writable = self._writable[key] = set()
        client.writable = writable
        for topic in topics:
            if len(topic) <= MAX_CACHED_NAME:
                if len(writable) >= MAX_WRITABLE:
                    writable.clear()
                writable.add(topic)

    def allows(self, context: Asker, api: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the client of a request may do this; the audit log has one line for it in each request."""
        connection = context.connection
        allowed = self._decisions.get((connection.principal, connection.host, operation, resource_type, name))
        if allowed is None:  # else without a call: this is on the path of every record
            allowed = self.sees(context, operation, resource_type, name)
        if not allowed or audit_logger.isEnabledFor(logging.DEBUG):
            decision = (allowed, operation, resource_type, name)
            if context.audited is None:
                context.audited = set()
            if decision not in context.audited:
                context.audited.add(decision)
                log = log_allowed if allowed else log_denied
                log(context, api, operation, resource_type, name)
        return allowed

    def sees(self, context: Asker, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """`allows` without a line in the audit log: for lists that leave out what the client may not see."""
        connection = context.connection
        key = (connection.principal, connection.host, operation, resource_type, name)
        allowed = self._decisions.get(key)
        if allowed is None:
            allowed = self._decide(key)
        return allowed

    def allows_any(self, context: Asker, api: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the client of a request may do this with any resource of a type."""
        allowed = self.sees_any(context, operation, resource_type)
        log = log_allowed if allowed else log_denied
        log(context, api, operation, resource_type, None)
        return allowed

    def sees_any(self, context: Asker, operation: Operation, resource_type: ResourceType) -> bool:
        """`allows_any` without a line in the audit log: for pages that show what a user could do."""
        try:
            return self.authorizer.allows_any(context.principal, context.client_address, operation, resource_type)
        except Exception:
            logger.exception("the authorizer failed; the operation is denied")
            return False

    def operations(self, context: Asker, resource_type: ResourceType, name: str) -> int:
        """Return what the client may do with a resource: one bit for each operation, by its number (KIP-430)."""
        return sum(
            1 << operation
            for operation in OPERATIONS_OF[resource_type]
            if self.sees(context, operation, resource_type, name)
        )

    def _decide(self, key: _Key) -> bool:
        try:
            allowed = bool(self.authorizer.allows(*key))
        except Exception:
            logger.exception("the authorizer failed; the operation is denied")
            return False
        if len(key[-1]) <= MAX_CACHED_NAME:
            if len(self._decisions) >= MAX_CACHED:
                self._decisions.clear()
            self._decisions[key] = allowed
        return allowed
