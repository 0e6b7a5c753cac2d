"""The interface of the registry that the rest of the broker uses.

It is ZooKeeper's data model with asyncio methods: a tree of nodes with versions, ephemeral and sequential nodes, atomic
multis and watches. Two stores implement it: the embedded one (registry/embedded/store.py) and real ZooKeeper. The
interface does not specify what differs between them:

* **Watches are level-triggered.** A watch is a permanent registration. Its callback has no arguments and means:
  something may have changed, read again. Calls may be late, merged, in any order among watches, and without a change.
  So register first, then read, and read again after each call. The guarantee: if the last such read (after the
  registration or a call) does not show a change, the callback is called after it. All watches are called when the
  connection is restored or a session starts.
* **Connection states.** SUSPENDED differs from EXPIRED: the ephemeral nodes still exist, so continue to serve. Calls
  made while suspended wait until the connection is restored or the session expires. Writes in flight when the
  connection is lost raise ConnectionLossError and may have been applied; reads in flight may raise it, too.
* **Expiry is explicit.** After EXPIRED every call raises SessionExpiredError until `start()` has opened a new session.
  No call that was meant for the old session is executed in the new one.
* **Reads may be old**, where a ZooKeeper server lags behind its leader. A session sees its own writes, and the changes
  that it was told of by a watch. Call `sync` before a read that must see what another client has written.
* The order of `children` is not specified.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from security.secret import hides

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# jute.maxbuffer: the size of the largest request packet that a ZooKeeper server reads, in bytes.
MAX_REQUEST_BYTES = 0xFFFFF

ANY_VERSION = -1


class Permission:
    """Bits of an ACL entry."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


class Acl(NamedTuple):
    """One entry of a node's access control list."""

    permissions: int
    scheme: str
    id: str


OPEN_ACL: tuple[Acl, ...] = (Acl(Permission.ALL, "world", "anyone"),)


class Stat(NamedTuple):
    """A node's metadata, in the order of kazoo's ZnodeStat. Times are milliseconds since the epoch."""

    czxid: int  # transaction that created the node: Kafka's broker epoch for /brokers/ids/N
    mzxid: int  # transaction that last set its data
    ctime: int
    mtime: int
    version: int  # number of changes of the data
    cversion: int  # number of changes of the set of children
    aversion: int  # number of changes of the ACL
    ephemeral_owner: int  # session id, 0 for a persistent node
    data_length: int  # bytes
    num_children: int
    pzxid: int  # transaction that last changed the set of children


@hides("data")
class Create(NamedTuple):
    """Create a node. The result is its path, with the sequence number if `sequence` is set."""

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequence: bool = False
    acl: Sequence[Acl] | None = None  # None: open to all


@hides("data")
class Set(NamedTuple):
    """Replace a node's data. The result is the new Stat."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Delete a node without children. The result is None."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Fail the multi unless the node exists with this version. The result is None."""

    path: str
    version: int


Op: TypeAlias = Create | Set | Delete | Check
OpResult: TypeAlias = str | Stat | None


class ConnectionState(Enum):
    """The state of a registry's session. Listeners are called for the first three only."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"
    CLOSED = "closed"  # not started yet, or closed


class Watch(Protocol):
    """A registration of a callback."""

    def cancel(self) -> None:
        """Stop calling the callback, also for changes that have already happened. Idempotent."""


class Registry(Protocol):
    """A client of the tree, with its session.

    Every method with a path raises BadArgumentsError if the path is malformed. Every asynchronous method may raise
    SessionExpiredError, ConnectionLossError and RegistryClosedError. The writes of a registry are applied in the order
    of the calls, and are durable when they return.
    """

    @property
    def session_id(self) -> int:
        """The id of the session, which owns the ephemeral nodes created here; 0 without a session."""

    @property
    def state(self) -> ConnectionState:
        """The latest state; listeners have been or will soon be called with it."""

    async def start(self) -> None:
        """Open a session: the first one, or a new one after the last expired."""

    async def close(self) -> None:
        """End the session, which deletes its ephemeral nodes, and cancel the watches. Idempotent."""

    def listen(self, callback: Callable[[ConnectionState], None]) -> Watch:
        """Call `callback` on the event loop with the new state after every change."""

    async def create(
        self,
        path: str,
        data: bytes | None = None,
        *,
        ephemeral: bool = False,
        sequence: bool = False,
        acl: Sequence[Acl] | None = None,
        make_parents: bool = False,
    ) -> str:
        """Create a node and return its path.

        With `sequence`, ten digits are appended: the number of children created before under this parent. With
        `make_parents`, missing ancestors are created first, one by one, as persistent nodes without data.

        Raises NodeExistsError, NoNodeError (no parent), NoChildrenForEphemeralsError, InvalidAclError,
        NoAuthError, DataTooLargeError.
        """

    async def get(self, path: str) -> tuple[bytes | None, Stat]:
        """Return the data and the stat. Raises NoNodeError, NoAuthError."""

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        """Replace the data. Raises NoNodeError, BadVersionError, NoAuthError, DataTooLargeError."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node. Raises NoNodeError, BadVersionError, NotEmptyError, NoAuthError."""

    async def exists(self, path: str) -> Stat | None:
        """Return the node's stat; None if it does not exist."""

    async def sync(self) -> None:
        """Return when the reads that follow see all writes that any client had completed before this call."""

    async def children(self, path: str) -> list[str]:
        """Return the names of the children. Raises NoNodeError, NoAuthError."""

    async def children_with_stat(self, path: str) -> tuple[list[str], Stat]:
        """Return the names of the children and the node's stat. Raises NoNodeError, NoAuthError."""

    async def get_acl(self, path: str) -> tuple[tuple[Acl, ...], Stat]:
        """Return the node's ACL and stat. Raises NoNodeError."""

    async def set_acl(self, path: str, acl: Sequence[Acl], version: int = ANY_VERSION) -> Stat:
        """Replace the ACL; `version` is the stat's aversion.

        Raises NoNodeError, BadVersionError, InvalidAclError, NoAuthError.
        """

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """Apply all operations or none, in order; return their results in order. Each sees the effects of those before.

        If an operation fails, its error is raised (BadVersionError, NoNodeError, …); `op_index` is its index.
        """

    def watch_data(self, path: str, callback: Callable[[], None]) -> Watch:
        """Call `callback` on the event loop after the node was created or deleted, or its data was set.

        The node need not exist.
        """

    def watch_children(self, path: str, callback: Callable[[], None]) -> Watch:
        """Call `callback` on the event loop after the node or one of its children was created or deleted.

        The node need not exist.
        """
