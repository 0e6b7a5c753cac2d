"""The registry tree for the console: nodes as far as their reader may see them, and watches on them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from broker.inspection.meanings import meaning_of
from broker.inspection.znode_content import is_visible, shown_content
from console.inspection.errors import BusyError, ClosedToBrokerError, InspectionError
from console.inspection.registry import Znode, ZnodeAcl, ZnodeChild
from console.rights import Rights
from registry.errors import (
    BadArgumentsError,
    ConnectionLossError,
    NoAuthError,
    NoNodeError,
    RegistryClosedError,
    SessionExpiredError,
)
from registry.interface import Acl, Permission, Registry, Stat, Watch

MAX_CHILDREN: Final = 200
"""Children in one answer."""
MAX_WATCHED: Final = 2_000
"""Nodes that the readers of one console watch at the same time."""
TIMEOUT_S: Final = 5.0
_NO_ANSWER: Final = "The registry does not answer: the broker has no connection to it, or its session has expired."
_UNREADABLE: Final = Stat(*[0] * len(Stat._fields))
_PERMISSIONS: Final = {
    "read": Permission.READ,
    "write": Permission.WRITE,
    "create": Permission.CREATE,
    "delete": Permission.DELETE,
    "admin": Permission.ADMIN,
}


class RegistryTree:
    """Implements `console.inspection.registry.RegistryInspection`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._watched = 0

    async def node(self, path: str, rights: Rights, contains: str) -> Znode | None:
        """See `RegistryInspection`."""
        if not is_visible(path, rights):
            return None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                return await self._node(path, rights, contains)
        except NoNodeError:
            return None
        except NoAuthError:
            raise ClosedToBrokerError(f"The ACL of {path} does not let this broker read it.") from None
        except BadArgumentsError as error:
            raise InspectionError(f"{path!r} is not a path of a znode: {error}") from None
        except (TimeoutError, ConnectionLossError, SessionExpiredError, RegistryClosedError):
            raise BusyError(_NO_ANSWER) from None

    async def _node(self, path: str, rights: Rights, contains: str) -> Znode:
        data, stat = await self._registry.get(path)
        content, note = shown_content(path, data, rights)
        names = await self._registry.children(path)
        acl, _ = await self._registry.get_acl(path)
        prefix = "/" if path == "/" else f"{path}/"
        found = sorted(one for one in names if contains in one and is_visible(prefix + one, rights))
        owner = stat.ephemeral_owner
        return Znode(
            path=path,
            meaning=meaning_of(path),
            content=content,
            note=note,
            data_length=stat.data_length,
            version=stat.version,
            child_version=stat.cversion,
            acl_version=stat.aversion,
            czxid=_zxid(stat.czxid),
            mzxid=_zxid(stat.mzxid),
            created_ms=stat.ctime,
            changed_ms=stat.mtime,
            ephemeral_owner=f"0x{owner & (1 << 64) - 1:x}" if owner else None,
            owner_broker=await self._broker_of(owner) if owner else None,
            acl=[_shown_acl(one) for one in acl],
            children=await self._children(prefix, found[:MAX_CHILDREN]),
            children_found=len(found),
        )

    async def _children(self, prefix: str, names: list[str]) -> list[ZnodeChild]:
        stats = await asyncio.gather(*(self._stat(prefix + name) for name in names))
        return [
            ZnodeChild(
                name=name, path=prefix + name, children=stat.num_children, is_ephemeral=bool(stat.ephemeral_owner)
            )
            for name, stat in zip(names, stats, strict=True)
            if stat is not None
        ]

    async def _stat(self, path: str) -> Stat | None:
        """Return what is known of a child; nothing if its ACL does not let this broker read it."""
        try:
            return await self._registry.exists(path)
        except NoAuthError:
            return _UNREADABLE

    async def _broker_of(self, session_id: int) -> int | None:
        """Return the broker whose session this is."""
        ids: list[str] = []
        with contextlib.suppress(NoNodeError, NoAuthError):
            ids = [one for one in await self._registry.children("/brokers/ids") if one.isdigit()]
        stats = await asyncio.gather(*(self._stat(f"/brokers/ids/{one}") for one in ids))
        owners = {stat.ephemeral_owner: int(one) for one, stat in zip(ids, stats, strict=True) if stat is not None}
        return owners.get(session_id)

    def watch(self, paths: Iterable[str], rights: Rights, changed: Callable[[str], None]) -> _Watches:
        """See `RegistryInspection`."""
        wanted = {path for path in paths if is_visible(path, rights)}
        if self._watched + len(wanted) > MAX_WATCHED:
            raise BusyError(
                f"Readers of this console watch {self._watched} nodes; more than {MAX_WATCHED} they cannot."
            )
        registry, watches = self._registry, _Watches(self, len(wanted))
        self._watched += len(wanted)
        try:
            for path in wanted:
                watches.add(registry.watch_data(path, partial(changed, path)))
                watches.add(registry.watch_children(path, partial(changed, path)))
        except BadArgumentsError as error:
            watches.close()
            raise InspectionError(f"this is not a path of a znode: {error}") from None
        except (ConnectionLossError, SessionExpiredError, RegistryClosedError):
            watches.close()
            raise BusyError(_NO_ANSWER) from None
        return watches

    def forget(self, count: int) -> None:
        """Count nodes that are no longer watched."""
        self._watched -= count


class _Watches:
    """The watches of one reader."""

    def __init__(self, tree: RegistryTree, count: int) -> None:
        self._tree: RegistryTree | None = tree
        self._count = count
        self._watches: list[Watch] = []

    def add(self, watch: Watch) -> None:
        self._watches.append(watch)

    def close(self) -> None:
        """See `ZnodeWatch`. Idempotent."""
        for watch in self._watches:
            watch.cancel()
        if self._tree is not None:
            self._tree.forget(self._count)
            self._tree = None


def _zxid(number: int) -> str:
    return f"0x{number:x}"


def _shown_acl(acl: Acl) -> ZnodeAcl:
    """The id of a digest has the hash of a password behind the user's name."""
    identity = acl.id.partition(":")[0] if acl.scheme == "digest" else acl.id
    names = [name for name, bit in _PERMISSIONS.items() if acl.permissions & bit]
    return ZnodeAcl(permissions=names, scheme=acl.scheme, id=identity)
