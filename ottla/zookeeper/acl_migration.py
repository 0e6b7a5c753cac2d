"""Change the ACLs of a cluster's tree, as Kafka's zookeeper-security-migration does: `ottla zk secure`, `unsecure`.

The root and Kafka's own paths are changed, each with everything below it; those that are missing are created, except
/controller. Other paths, such as /consumers, are left alone. A second run changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from registry.errors import NodeExistsError, NoNodeError
from registry.interface import Acl, Registry
from registry.pipeline import read_all
from registry.znodes.controller import ControllerZnode
from registry.znodes.protection import CREATOR, PROTECTED_ROOTS, default_acl

ROOT = "/"


class Outcome(NamedTuple):
    """The number of znodes that were looked at, and the paths of those whose ACL was changed."""

    looked_at: int
    changed: list[str]


async def missing_roots(registry: Registry) -> list[str]:
    """Return Kafka's paths that do not exist; many of them may mean that the chroot is wrong."""
    stats = await read_all(registry.exists, PROTECTED_ROOTS)
    paths = zip(PROTECTED_ROOTS, stats, strict=True)
    return [path for path, stat in paths if stat is None and path != ControllerZnode.path()]


async def migrate(registry: Registry, *, is_protected: bool, on_change: Callable[[str], None]) -> Outcome:
    """Give every znode of Kafka's its ACL; without `is_protected`, open them to everybody.

    on_change: called with the path of each changed znode. Raises NoAuthError if this session may not change a znode;
    those before it are changed, and the migration can be repeated. InvalidAclError: the session has no identity.
    """
    acls = _Acls(registry, is_protected, on_change)
    await acls.change(ROOT)
    for path in PROTECTED_ROOTS:
        if path != ControllerZnode.path():
            with suppress(NodeExistsError):
                await registry.create(path, acl=default_acl(path, is_protected=is_protected))
                acls.note(path)
        level = [path]
        while level:
            await read_all(acls.change, level)
            names = await read_all(partial(_children, registry), level)
            level = [f"{parent}/{name}" for parent, found in zip(level, names, strict=True) for name in found]
    return Outcome(acls.looked_at, acls.changed)


class _Acls:
    """Changes single ACLs; knows what ZooKeeper makes of the creator's entry."""

    def __init__(self, registry: Registry, is_protected: bool, on_change: Callable[[str], None]) -> None:
        self._registry = registry
        self._is_protected = is_protected
        self._on_change = on_change
        self._identities: tuple[Acl, ...] | None = None  # known after the first change
        self.changed: list[str] = []
        self.looked_at = 0

    async def change(self, path: str) -> None:
        """Give a znode its ACL, unless it has it already or was deleted meanwhile."""
        wanted = default_acl(path, is_protected=self._is_protected)
        try:
            before, _ = await self._registry.get_acl(path)
            self.looked_at += 1
            if self._identities is not None and set(before) == set(self._expanded(wanted)):
                return
            await self._registry.set_acl(path, wanted)
            after, _ = await self._registry.get_acl(path)
        except NoNodeError:
            return
        if self._identities is None:
            self._identities = tuple(entry for entry in after if entry not in wanted)
        if set(after) != set(before):
            self.note(path)

    def note(self, path: str) -> None:
        """Note a change."""
        self.changed.append(path)
        self._on_change(path)

    def _expanded(self, acl: tuple[Acl, ...]) -> list[Acl]:
        """Return an ACL as ZooKeeper stores it: with an entry for each identity of the session."""
        return [one for entry in acl for one in ((self._identities or ()) if entry == CREATOR else (entry,))]


async def _children(registry: Registry, path: str) -> list[str]:
    try:
        return await registry.children(path)
    except NoNodeError:  # deleted meanwhile
        return []
