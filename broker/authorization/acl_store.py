"""ACLs in the registry, as Kafka's AclAuthorizer keeps them there.

A change is one transaction: the znode of the resource pattern, with its version as condition, and a sequential znode
that notifies every broker, if the rules are different now. So a connection that breaks leaves no change without its
notification. A pattern without rules has no znode. Each broker reads all ACLs at its start and then those that
notifications name. An ACL that is written without a notification is not seen, as in Kafka.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain
from typing import TypeVar
from weakref import WeakValueDictionary

from broker.change_notifications import ChangeNotifications
from client.wire.backoff import Backoff, Retries
from registry.errors import BadVersionError, ConnectionLossError, NodeExistsError, NoNodeError, ZnodeFormatError
from registry.interface import Create, Delete, Op, Registry, Set
from registry.pipeline import read_all
from registry.znodes.acls import (
    RESOURCE_TYPES,
    AclChangesZnode,
    AclChangeZnode,
    AclEntry,
    AclResourceTypeZnode,
    AclsZnode,
    ExtendedAclChangesZnode,
    ExtendedAclChangeZnode,
    ExtendedAclPatternTypeZnode,
    ExtendedAclResourceTypeZnode,
    ExtendedAclsZnode,
    ExtendedResourceAclZnode,
    ResourceAclZnode,
)
from security.acls.binding import AccessRule, ResourcePattern
from security.acls.rules import AclRules
from security.acls.types import Operation, PatternType, Permission, ResourceType

MAX_ATTEMPTS = 10
"""Attempts to write the rules of a pattern that other brokers write at the same time."""

Rules = frozenset[AccessRule]
E = TypeVar("E", Operation, Permission, PatternType, ResourceType)


class AclStore:
    """Reads ACLs into `rules`, and writes them. `start` before anything else; `run` until the broker stops."""

    def __init__(
        self,
        registry: Registry,
        rules: AclRules,
        changed: Callable[[], None],
        now_ms: Callable[[], int],
        backoff: Backoff,
    ) -> None:
        """changed: called after every change of `rules`."""
        self._registry = registry
        self._rules = rules
        self._changed = changed
        self._backoff = backoff
        folders = {
            AclChangesZnode.TEMPLATE: self._load_literal,
            ExtendedAclChangesZnode.TEMPLATE: self._load_extended,
        }
        self._notifications = ChangeNotifications(registry, folders, "ACLs", now_ms, backoff)
        self._turns: WeakValueDictionary[ResourcePattern, asyncio.Lock] = WeakValueDictionary()

    async def start(self) -> None:
        """Create the parents that are missing, and read all ACLs. Raises ZnodeFormatError for one that is unreadable.

        An ACL that was skipped might be a deny.
        """
        for path in _parents():
            with suppress(NodeExistsError):
                await self._registry.create(path)
        await self._notifications.skip()
        await self.reload()

    async def reload(self) -> None:
        """Read all ACLs: at the start, and after notifications may have been missed."""
        found = list(self._rules.patterns())
        for resource_type in ResourceType:
            for pattern_type in PatternType:
                parent = _parent(resource_type, pattern_type)
                if parent is not None:
                    names = await self._registry.children(parent)
                    found += [ResourcePattern(resource_type, name, pattern_type) for name in names]
        await read_all(self._load, list(dict.fromkeys(found)))

    async def _load(self, pattern: ResourcePattern) -> None:
        """Read the rules of a pattern and apply them."""
        async with self._turn(pattern):
            self._apply(pattern, (await self._read(pattern))[0])

    def _turn(self, pattern: ResourcePattern) -> asyncio.Lock:
        """Return a lock for a pattern, so that an older state of it is never applied after a newer one."""
        lock = self._turns.get(pattern)
        if lock is None:
            lock = self._turns[pattern] = asyncio.Lock()
        return lock

    async def update(self, pattern: ResourcePattern, change: Callable[[Rules], Rules]) -> None:
        """Change the rules of a pattern. `change` may be called again if another broker writes at the same time.

        Raises BadVersionError after MAX_ATTEMPTS.
        """
        retries = Retries(self._backoff)
        async with self._turn(pattern):
            for attempt in range(MAX_ATTEMPTS):
                if attempt:
                    await retries.wait()
                before, version = await self._read(pattern)
                after = change(before)
                try:
                    await self._write(pattern, after, version, notify=after != before)
                except ConnectionLossError:
                    await self._registry.sync()
                    if (await self._read(pattern))[0] != after:  # it was not applied
                        continue
                except (BadVersionError, NodeExistsError, NoNodeError):
                    continue
                self._apply(pattern, after)
                return
        raise BadVersionError(_path(pattern))

    async def _read(self, pattern: ResourcePattern) -> tuple[Rules, int | None]:
        """Return the rules in the registry and the version of their znode, None if there is none."""
        path = _path(pattern)
        try:
            data, stat = await self._registry.get(path)
        except NoNodeError:
            return frozenset(), None
        return frozenset(_rule(entry, path) for entry in ResourceAclZnode.decode(data, path).acls), stat.version

    async def _write(self, pattern: ResourcePattern, rules: Rules, version: int | None, *, notify: bool) -> None:
        path = _path(pattern)
        ops: list[Op] = []
        if rules:
            data = ResourceAclZnode(acls=[_entry(rule) for rule in sorted(rules)]).encode()
            ops.append(Create(path, data) if version is None else Set(path, data, version))
        elif version is not None:
            ops.append(Delete(path, version))
        if notify:
            ops.append(_notification(pattern))
        if ops:
            await self._registry.multi(ops)

    def _apply(self, pattern: ResourcePattern, rules: Rules) -> None:
        if self._rules.set(pattern, rules):
            self._changed()

    # -- notifications -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Process notifications until cancelled."""
        await self._notifications.run()

    async def _load_literal(self, data: bytes | None, path: str) -> None:
        change = AclChangeZnode.decode(data, path)
        await self._load(ResourcePattern(_resource_type(change.resource_type, path), change.resource))

    async def _load_extended(self, data: bytes | None, path: str) -> None:
        change = ExtendedAclChangeZnode.decode(data, path)
        pattern_type = _member(PatternType, change.pattern_type, path)
        await self._load(ResourcePattern(_resource_type(change.resource_type, path), change.resource, pattern_type))


def _parents() -> Iterable[str]:
    """Return the permanent znodes in Kafka's order."""
    prefixed = PatternType.PREFIXED.name.lower()
    literal = (AclResourceTypeZnode.TEMPLATE.format(resource_type=one) for one in RESOURCE_TYPES)
    extended = (
        ExtendedAclResourceTypeZnode.TEMPLATE.format(pattern_type=prefixed, resource_type=one) for one in RESOURCE_TYPES
    )
    return chain(
        [AclsZnode.TEMPLATE],
        literal,
        [AclChangesZnode.TEMPLATE],
        [ExtendedAclsZnode.TEMPLATE, ExtendedAclPatternTypeZnode.TEMPLATE.format(pattern_type=prefixed)],
        extended,
        [ExtendedAclChangesZnode.TEMPLATE],
    )


def _parent(resource_type: ResourceType, pattern_type: PatternType) -> str | None:
    if resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return None
    if pattern_type is PatternType.LITERAL:
        return AclResourceTypeZnode.TEMPLATE.format(resource_type=resource_type.label)
    if pattern_type is PatternType.PREFIXED:
        return ExtendedAclResourceTypeZnode.TEMPLATE.format(
            pattern_type=pattern_type.name.lower(), resource_type=resource_type.label
        )
    return None


def _path(pattern: ResourcePattern) -> str:
    znode = ResourceAclZnode if pattern.pattern_type is PatternType.LITERAL else ExtendedResourceAclZnode
    return znode.path(pattern.resource_type.label, pattern.name)


def _notification(pattern: ResourcePattern) -> Create:
    kind, name = pattern.resource_type.name, pattern.name
    znode: AclChangeZnode | ExtendedAclChangeZnode
    if pattern.pattern_type is PatternType.LITERAL:
        path, znode = AclChangeZnode.path(), AclChangeZnode(resource_type=kind, resource=name)
    else:
        path, znode = ExtendedAclChangeZnode.path(), ExtendedAclChangeZnode(resource_type=kind, resource=name)
    return Create(path, znode.encode(), sequence=True)


def _rule(entry: AclEntry, path: str) -> AccessRule:
    operation = _member(Operation, entry.operation, path)
    return AccessRule(entry.principal, entry.host, operation, _member(Permission, entry.permission_type, path))


def _entry(rule: AccessRule) -> AclEntry:
    return AclEntry(rule.principal, rule.permission.label, rule.host, rule.operation.label)


def _resource_type(text: str, path: str) -> ResourceType:
    return _member(ResourceType, text, path)


def _member(kind: type[E], text: str, path: str) -> E:
    """Return the member that is called so in a znode: `TransactionalId` or `TRANSACTIONAL_ID`, in any case."""
    plain = text.replace("_", "").lower()
    for member in kind:
        if member.name.replace("_", "").lower() == plain and member.name not in ("UNKNOWN", "ANY", "MATCH"):
            return member
    raise ZnodeFormatError(path, f"{text!r} is none of Kafka's names for this")
