"""ZooKeeper's tree in memory, and drafts of changes to it.

`Tree` has the durable state; reads use it. A write is applied to a `Draft`: an overlay of changed nodes, with
ZooKeeper's checks in ZooKeeper's order. Drafts can be nested: a multi uses its own draft, which is merged into the
group's draft if all operations succeed.

Nodes are immutable, so a draft shares them with the tree. The sets of children are separate from the nodes: a draft
needs only the number of children, and copying a set for each of 10,000 topics would take quadratic time.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from registry.embedded.access import Caller, checked_acl, require
from registry.embedded.lifetimes import has_ended
from registry.errors import (
    BadArgumentsError,
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RegistryError,
    RolledBackError,
    RuntimeInconsistencyError,
)
from registry.interface import ANY_VERSION, OPEN_ACL, Acl, Create, Delete, Permission, Set, Stat
from registry.paths import name_of, parent_of
from security.secret import hides

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from registry.interface import Op, OpResult

    TreeOp: TypeAlias = Op | "CreateOwned"


@hides("data")
class TreeNode(NamedTuple):
    """One node. Fields with the same name as in Stat have the same meaning."""

    data: bytes | None
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    creates: int  # children ever created: the next sequence number
    aversion: int
    ephemeral_owner: int  # negative for a container or a node with a time to live (registry/embedded/lifetimes.py)
    num_children: int
    pzxid: int
    acl: tuple[Acl, ...]

    @property
    def is_ephemeral(self) -> bool:
        """Whether the node belongs to a session."""
        return self.ephemeral_owner > 0

    def stat(self) -> Stat:
        """Return the node's metadata for clients."""
        return Stat(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            # cversion counts creates and deletes; the children that no longer exist were deleted.
            2 * self.creates - self.num_children,
            self.aversion,
            max(self.ephemeral_owner, 0),
            len(self.data) if self.data is not None else 0,
            self.num_children,
            self.pzxid,
        )


class ChangeKind(Enum):
    """What happened to a node."""

    CREATED = "created"
    SET = "set"
    DELETED = "deleted"


class NodeChange(NamedTuple):
    """One change of one node. The creation and the deletion of a node also change its parent's set of children."""

    kind: ChangeKind
    path: str


class CreateOwned(NamedTuple):
    """Create a container or a node with a time to live; `create.ephemeral` has no effect."""

    create: Create
    owner: int

    @property
    def path(self) -> str:
        """The path, without a sequence number."""
        return self.create.path


@hides("password")
class KeptSession(NamedTuple):
    """A session that survives a restart of the process: of a client in another process."""

    timeout_ms: int
    password: bytes


def new_root() -> TreeNode:
    """Return the root of an empty tree, as in ZooKeeper: empty data, not null."""
    return TreeNode(b"", 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, OPEN_ACL)


class Draft:
    """Changes that are not in the tree yet. `zxid` and `now_ms` are those of the next operation."""

    def __init__(self, below: Callable[[str], TreeNode | None], zxid: int, now_ms: int) -> None:
        self._below = below
        self.zxid = zxid
        self.now_ms = now_ms
        self.changes: dict[str, TreeNode | None] = {}  # None: deleted
        self.history: list[NodeChange] = []  # the same changes, in order, for the watches
        self.sessions: dict[int, KeptSession | None] = {}  # by id; None: ended

    def get(self, path: str) -> TreeNode | None:
        """Return the node in this draft; None if it does not exist."""
        if path in self.changes:
            return self.changes[path]
        return self._below(path)

    def node(self, path: str) -> TreeNode:
        """Return the node in this draft. Raises NoNodeError."""
        node = self.get(path)
        if node is None:
            raise NoNodeError(f"{path}: there is no such node", path)
        return node

    def apply(self, op: TreeOp, caller: Caller) -> OpResult:
        """Apply one operation. If it raises, nothing is changed."""
        if isinstance(op, Create):
            return self.create(op, caller)
        if isinstance(op, CreateOwned):
            return self.create(op.create, caller, op.owner)
        if isinstance(op, Set):
            return self.set(op, caller)
        if isinstance(op, Delete):
            self.delete(op, caller)
            return None
        node = self.node(op.path)
        require(node.acl, Permission.READ, op.path, caller)
        _require_version(op.path, node.version, op.version)
        return None

    def create(self, op: Create, caller: Caller, owner: int | None = None) -> str:
        """Create a node and return its path. owner: see CreateOwned; by default, `op` says whether it is ephemeral."""
        acl = checked_acl(op.acl, op.path, caller)
        slash = op.path.rindex("/")  # not parent_of: a sequential path may end with a slash
        parent_path = op.path[:slash] or "/"
        parent = self.node(parent_path)
        require(parent.acl, Permission.CREATE, op.path, caller)
        path = f"{op.path}{parent.creates:010d}" if op.sequence else op.path
        if self.get(path) is not None:
            raise NodeExistsError(f"{path}: the node exists already", path)
        if parent.is_ephemeral:
            raise NoChildrenForEphemeralsError(f"{path}: the parent is ephemeral", path)
        if owner is None:
            owner = caller.session_id if op.ephemeral else 0
        now, zxid = self.now_ms, self.zxid
        self.changes[path] = TreeNode(op.data, zxid, zxid, now, now, 0, 0, 0, owner, 0, zxid, acl)
        self.changes[parent_path] = parent._replace(
            creates=parent.creates + 1, num_children=parent.num_children + 1, pzxid=zxid
        )
        self.history.append(NodeChange(ChangeKind.CREATED, path))
        return path

    def set(self, op: Set, caller: Caller) -> Stat:
        """Replace a node's data and return its new stat."""
        node = self.node(op.path)
        require(node.acl, Permission.WRITE, op.path, caller)
        _require_version(op.path, node.version, op.version)
        node = node._replace(data=op.data, mzxid=self.zxid, mtime=self.now_ms, version=node.version + 1)
        self.changes[op.path] = node
        self.history.append(NodeChange(ChangeKind.SET, op.path))
        return node.stat()

    def set_acl(self, path: str, acl: Sequence[Acl], version: int, caller: Caller) -> Stat:
        """Replace a node's ACL and return its new stat."""
        checked = checked_acl(acl, path, caller)
        node = self.node(path)
        require(node.acl, Permission.ADMIN, path, caller)
        _require_version(path, node.aversion, version)
        node = node._replace(acl=checked, aversion=node.aversion + 1)
        self.changes[path] = node
        return node.stat()

    def delete(self, op: Delete, caller: Caller) -> None:
        """Delete a node."""
        if op.path == "/":
            raise BadArgumentsError("/: the root cannot be deleted", "/")
        parent = self.get(parent_of(op.path))
        node = self.node(op.path)
        assert parent is not None, "a node without a parent"
        require(parent.acl, Permission.DELETE, op.path, caller)
        _require_version(op.path, node.version, op.version)
        if node.num_children:
            raise NotEmptyError(f"{op.path}: the node has {node.num_children} children", op.path)
        self.remove(op.path)

    def delete_container(self, path: str, caller: Caller) -> None:
        """Delete a node without children, whatever its version, unless it is ephemeral.

        This is ZooKeeper's request with which its own thread deletes containers; a client may send it, and the node
        need not be a container. ZooKeeper asks for no right. This is not taken over: it would bypass ACLs.
        """
        node = self.node(path)
        if node.num_children:
            raise NotEmptyError(f"{path}: the node has {node.num_children} children", path)
        if node.is_ephemeral:
            raise BadVersionError(f"{path}: the node is ephemeral", path)
        self.delete(Delete(path), caller)

    def remove(self, path: str) -> None:
        """Delete a node without children and without a check of version and ACL, at the end of a session."""
        parent_path = parent_of(path)
        parent = self.node(parent_path)
        self.changes[path] = None
        self.changes[parent_path] = parent._replace(num_children=parent.num_children - 1, pzxid=self.zxid)
        self.history.append(NodeChange(ChangeKind.DELETED, path))

    def multi(
        self, ops: Sequence[TreeOp], caller: Caller, applied: Callable[[OpResult, Draft], None] | None = None
    ) -> list[OpResult]:
        """Apply all operations or none. Raises the error of the operation that failed.

        applied: called after each operation with its result and the draft at that moment.
        """
        own = self.nested()
        results: list[OpResult] = []
        for index, op in enumerate(ops):
            try:
                results.append(own.apply(op, caller))
            except RegistryError as error:
                raise multi_failure(ops, index, error) from None
            if applied is not None:
                applied(results[-1], own)
        self.merge(own)
        return results

    def nested(self) -> Draft:
        """Return an empty draft on top of this one."""
        return Draft(self.get, self.zxid, self.now_ms)

    def merge(self, nested: Draft) -> None:
        """Take the changes of a nested draft."""
        self.changes.update(nested.changes)
        self.history += nested.history
        self.sessions.update(nested.sessions)

    def clear(self) -> None:
        """Drop all changes."""
        self.changes.clear()
        self.history.clear()
        self.sessions.clear()


class Tree:
    """The durable nodes, with indexes of children and ephemeral nodes.

    Invariants: every node but the root has its parent here; `children[p]` has exactly `nodes[p].num_children`
    names; `zxid` is that of the last write.
    """

    def __init__(self, nodes: dict[str, TreeNode], zxid: int) -> None:
        self.nodes = nodes
        self.zxid = zxid
        self._children: dict[str, set[str]] = {}
        self._ephemerals: dict[int, set[str]] = {}
        self._owned: set[str] = set()  # containers and nodes with a time to live
        for path, node in nodes.items():
            self._index(path, node)

    def get(self, path: str) -> TreeNode | None:
        """Return the node; None if it does not exist."""
        return self.nodes.get(path)

    def node(self, path: str) -> TreeNode:
        """Return the node. Raises NoNodeError."""
        node = self.nodes.get(path)
        if node is None:
            raise NoNodeError(f"{path}: there is no such node", path)
        return node

    def children(self, path: str) -> list[str]:
        """Return the names of the children, sorted, so that simulations are reproducible."""
        return sorted(self._children.get(path, ()))

    def count_below(self, path: str) -> int:
        """Return the number of nodes below a node: its children, their children, and so on."""
        if path == "/":
            return len(self.nodes) - 1
        count, parents = 0, [path]
        while parents:
            parent = parents.pop()
            names = self._children.get(parent, ())
            count += len(names)
            parents += [f"{parent}/{name}" for name in names]
        return count

    def ephemerals(self, session_id: int) -> set[str]:
        """Return the paths of a session's ephemeral nodes, as a new set."""
        return set(self._ephemerals.get(session_id, ()))

    def ended(self, now_ms: int) -> list[str]:
        """Return the paths of containers and nodes with a time to live that may be deleted now, sorted."""
        return sorted(path for path in self._owned if has_ended(self.nodes[path], now_ms))

    def merge(self, draft: Draft) -> None:
        """Make a draft visible."""
        self.zxid = draft.zxid
        for path, new in draft.changes.items():
            old = self.nodes.get(path)
            if old is not None:
                self._forget(path, old)
            if new is not None:
                self.nodes[path] = new
                self._index(path, new)

    def _index(self, path: str, node: TreeNode) -> None:
        if path != "/":
            self._children.setdefault(parent_of(path), set()).add(name_of(path))
        if node.ephemeral_owner < 0:
            self._owned.add(path)
        elif node.is_ephemeral:
            self._ephemerals.setdefault(node.ephemeral_owner, set()).add(path)

    def _forget(self, path: str, node: TreeNode) -> None:
        del self.nodes[path]
        if path != "/":
            names = self._children[parent_of(path)]
            names.discard(name_of(path))
            if not names:
                del self._children[parent_of(path)]
        if node.ephemeral_owner < 0:
            self._owned.discard(path)
        elif node.is_ephemeral:
            owned = self._ephemerals[node.ephemeral_owner]
            owned.discard(path)
            if not owned:
                del self._ephemerals[node.ephemeral_owner]


def multi_failure(ops: Sequence[TreeOp], index: int, error: RegistryError) -> RegistryError:
    """Return the error of the operation `index` of a multi, with the results of all operations."""
    before = [RolledBackError(f"{op.path}: rolled back", op.path) for op in ops[:index]]
    after = [RuntimeInconsistencyError(f"{op.path}: not tried", op.path) for op in ops[index + 1 :]]
    error.op_index = index
    error.results = [*before, error, *after]
    return error


def _require_version(path: str, actual: int, expected: int) -> None:
    if expected not in (ANY_VERSION, actual):
        raise BadVersionError(f"{path}: version is {actual}, {expected} was expected", path)
