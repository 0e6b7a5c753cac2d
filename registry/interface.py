"""The registry that the rest of the broker programs against.

It is ZooKeeper's data model seen through an asyncio door: a tree of nodes with versions, ephemeral and
sequential nodes, atomic multis and watches. Two stores implement it: the embedded one (registry/embedded/store.py)
and real ZooKeeper. Whatever differs between them is left open here on purpose:

* **Watches are level-triggered.** A watch is a lasting registration that calls back with nothing: something
  changed here, read again. Calls may come late, be merged, come in any order among watches, and come without
  a change. So register first, then read, and read again after each call. What is promised: a change that such a
  read (the last that was made after registering, or after a call) did not show is called for. All watches are
  called when a connection comes back or a session starts.
* **Connection states.** SUSPENDED is not EXPIRED: the ephemeral nodes are still there, keep serving. Calls
  made while suspended wait for the connection to come back or the session to expire. Writes under way when it
  was lost raise ConnectionLossError, and may have been applied; reads under way may raise it too.
* **Expiry is explicit.** After EXPIRED every call raises SessionExpiredError until `start()` has opened a new
  session. No call that was meant for the old session can slip into the new one.
* `children` come in no particular order.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# jute.maxbuffer: the longest request packet that a ZooKeeper server reads, in bytes.
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
    version: int  # how often the data was set
    cversion: int  # how often the set of children changed
    aversion: int  # how often the ACL was set
    ephemeral_owner: int  # session id, 0 for a persistent node
    data_length: int  # bytes
    num_children: int
    pzxid: int  # transaction that last changed the set of children


class Create(NamedTuple):
    """Create a node; its result is the path, with the sequence number if there is one."""

    path: str
    data: bytes | None = None
    ephemeral: bool = False
    sequence: bool = False
    acl: Sequence[Acl] | None = None  # None: open to all


class Set(NamedTuple):
    """Replace a node's data; its result is the new Stat."""

    path: str
    data: bytes | None
    version: int = ANY_VERSION


class Delete(NamedTuple):
    """Delete a node without children; its result is None."""

    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Fail the multi unless the node exists with this version; its result is None."""

    path: str
    version: int


Op: TypeAlias = Create | Set | Delete | Check
OpResult: TypeAlias = str | Stat | None


class ConnectionState(Enum):
    """Where a registry's session stands. Listeners hear of the first three only."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    EXPIRED = "expired"
    CLOSED = "closed"  # not started yet, or closed


class Watch(Protocol):
    """A registration that can be taken back."""

    def cancel(self) -> None:
        """Call the callback no more, not even for a change that has already happened. Idempotent."""


class Registry(Protocol):
    """One client of the tree: a session and what it may do.

    Every method that takes a path raises BadArgumentsError for a malformed one; every asynchronous one may
    raise SessionExpiredError, ConnectionLossError and RegistryClosedError. All writes of one registry are
    applied in the order of the calls, and are durable when they return.
    """

    @property
    def session_id(self) -> int:
        """Owner of the ephemeral nodes created here; 0 without a session."""

    @property
    def state(self) -> ConnectionState:
        """The state that listeners have heard, or are about to hear."""

    async def start(self) -> None:
        """Open a session: the first one, or a new one after the last expired."""

    async def close(self) -> None:
        """End the session, which removes its ephemeral nodes, and forget the watches. Idempotent."""

    def listen(self, callback: Callable[[ConnectionState], None]) -> Watch:
        """Call back on the event loop with every change of state."""

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

        With `sequence` ten digits are appended: how many children the parent has ever had before. With
        `make_parents` missing ancestors are created as persistent nodes without data, one by one, first.

        Raises NodeExistsError, NoNodeError (no parent), NoChildrenForEphemeralsError, InvalidAclError,
        NoAuthError, DataTooLargeError.
        """

    async def get(self, path: str) -> tuple[bytes | None, Stat]:
        """Data and stat. Raises NoNodeError, NoAuthError."""

    async def set(self, path: str, data: bytes | None, version: int = ANY_VERSION) -> Stat:
        """Replace the data. Raises NoNodeError, BadVersionError, NoAuthError, DataTooLargeError."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node. Raises NoNodeError, BadVersionError, NotEmptyError, NoAuthError."""

    async def exists(self, path: str) -> Stat | None:
        """Stat of the node, None if there is none."""

    async def children(self, path: str) -> list[str]:
        """Names of the children. Raises NoNodeError, NoAuthError."""

    async def children_with_stat(self, path: str) -> tuple[list[str], Stat]:
        """Names of the children, and the stat of the node itself. Raises NoNodeError, NoAuthError."""

    async def get_acl(self, path: str) -> tuple[tuple[Acl, ...], Stat]:
        """The node's ACL and stat. Raises NoNodeError."""

    async def set_acl(self, path: str, acl: Sequence[Acl], version: int = ANY_VERSION) -> Stat:
        """Replace the ACL; `version` is the stat's aversion.

        Raises NoNodeError, BadVersionError, InvalidAclError, NoAuthError.
        """

    async def multi(self, ops: Sequence[Op]) -> list[OpResult]:
        """Apply all operations or none, in order, each seeing the ones before; their results in order.

        If one fails its own error is raised (BadVersionError, NoNodeError, …) with `op_index` telling which
        operation it was.
        """

    def watch_data(self, path: str, callback: Callable[[], None]) -> Watch:
        """Call back on the event loop after the node was created, deleted or its data set.

        The node need not exist.
        """

    def watch_children(self, path: str, callback: Callable[[], None]) -> Watch:
        """Call back on the event loop after the node was created or deleted, or a child of it was.

        The node need not exist.
        """
