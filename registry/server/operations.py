"""The requests of ZooKeeper's protocol: their fields, what they do, and the fields of their answers.

`parse` turns the bytes of a request into a `Read`, which runs on the visible tree, or a `Write`, which runs on a draft
of the store. Both return the bytes of the answer. Source: zookeeper.jute and FinalRequestProcessor of ZooKeeper 3.9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from registry.embedded.access import Caller, require
from registry.embedded.lifetimes import CONTAINER_OWNER, MAX_TTL_MS, ttl_owner
from registry.embedded.tree import CreateOwned, multi_failure
from registry.errors import BadArgumentsError, NoAuthError, RegistryError
from registry.interface import Acl, Check, Create, Delete, OpResult, Permission, Set, Stat
from registry.paths import validate_path
from registry.server import jute
from registry.server.codes import ErrorCode, OpCode, code_of
from registry.server.jute import JuteError, JuteReader
from registry.server.watches import WatchKind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from registry.embedded.tree import Draft, Tree, TreeNode, TreeOp
    from registry.server.watches import Event, Watches

_MODES_EPHEMERAL = (1, 3)  # the flags of a create: ZooKeeper's CreateMode
_MODES_SEQUENTIAL = (2, 3, 6)
_MODE_CONTAINER = 4
_MODES_TTL = (5, 6)
_INVALID_OWNER = 0
_NOTHING = b""
_MAX_MULTI_OPS = 10_000
_MAX_MULTI_READ_BYTES = 4 << 20  # a small multi of reads could have an answer of hundreds of MB


class RefusedError(Exception):
    """A request that is answered with an error code that the store has no exception for."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class View(NamedTuple):
    """What a read sees and changes: the visible tree, who asks, and the watches of the connection."""

    tree: Tree
    caller: Caller
    watches: Watches
    notify: Callable[[Event], None]

    def readable(self, path: str) -> TreeNode:
        """Return a node that the caller may read. Raises NoNodeError, NoAuthError."""
        node = self.tree.node(path)
        require(node.acl, Permission.READ, path, self.caller)
        return node


class Read(NamedTuple):
    """A request that does not change the tree."""

    run: Callable[[View], bytes]


class Write(NamedTuple):
    """A request that changes the tree, and is answered when the change is durable."""

    run: Callable[[Draft, Caller], bytes]


def parse(opcode: int, reader: JuteReader) -> Read | Write:
    """Read a request. Raises JuteError, BadArgumentsError, RefusedError."""
    parser = _PARSERS.get(opcode)
    if parser is None:
        disabled = opcode == OpCode.RECONFIG
        raise RefusedError(ErrorCode.RECONFIG_DISABLED if disabled else ErrorCode.UNIMPLEMENTED)
    return parser(reader)


def _path(reader: JuteReader) -> str:
    path = reader.string()
    validate_path(path)
    return path


def _exists(reader: JuteReader) -> Read:
    path, is_watched = _path(reader), reader.boolean()

    def run(view: View) -> bytes:
        if is_watched:
            view.watches.add(view.watches.data, path)  # also if there is no such node: for its creation
        return jute.stat(view.tree.node(path).stat())

    return Read(run)


def _get_data(reader: JuteReader) -> Read:
    path, is_watched = _path(reader), reader.boolean()

    def run(view: View) -> bytes:
        node = view.readable(path)
        if is_watched:
            view.watches.add(view.watches.data, path)
        return jute.buffer(node.data) + jute.stat(node.stat())

    return Read(run)


def _children_parser(*, with_stat: bool) -> Callable[[JuteReader], Read]:
    def parser(reader: JuteReader) -> Read:
        path, is_watched = _path(reader), reader.boolean()

        def run(view: View) -> bytes:
            node = view.readable(path)
            if is_watched:
                view.watches.add(view.watches.children, path)
            names = jute.strings(view.tree.children(path))
            return names + jute.stat(node.stat()) if with_stat else names

        return Read(run)

    return parser


def _get_acl(reader: JuteReader) -> Read:
    path = _path(reader)

    def run(view: View) -> bytes:
        node = view.tree.node(path)
        require(node.acl, Permission.READ | Permission.ADMIN, path, view.caller)
        return jute.acl(_shown_acl(node, path, view.caller)) + jute.stat(node.stat())

    return Read(run)


def _shown_acl(node: TreeNode, path: str, caller: Caller) -> Sequence[Acl]:
    """Return the ACL, without the hashes of passwords for those who may not change it."""
    try:
        require(node.acl, Permission.ADMIN, path, caller)
    except NoAuthError:
        return [a._replace(id=f"{a.id.partition(':')[0]}:x") if a.scheme == "digest" else a for a in node.acl]
    return node.acl


def _sync(reader: JuteReader) -> Read:
    path = _path(reader)
    return Read(lambda _: jute.string(path))


def _get_ephemerals(reader: JuteReader) -> Read:
    prefix = reader.string()

    def run(view: View) -> bytes:
        paths = view.tree.ephemerals(view.caller.session_id)
        return jute.strings(sorted(path for path in paths if path.startswith(prefix)))

    return Read(run)


def _get_all_children_number(reader: JuteReader) -> Read:
    path = _path(reader)

    def run(view: View) -> bytes:
        view.readable(path)
        return jute.int32(view.tree.count_below(path))

    return Read(run)


def _who_am_i(_: JuteReader) -> Read:
    def run(view: View) -> bytes:
        names = [
            (one.scheme, one.id.partition(":")[0] if one.scheme == "digest" else one.id)
            for one in view.caller.identities
        ]
        return jute.int32(len(names)) + b"".join(jute.string(scheme) + jute.string(name) for scheme, name in names)

    return Read(run)


def _set_watches_parser(*, with_persistent: bool) -> Callable[[JuteReader], Read]:
    def parser(reader: JuteReader) -> Read:
        seen_zxid = reader.int64()
        data, exist, children = (reader.vector(lambda: _path(reader)) for _ in range(3))
        persistent, recursive = (reader.vector(lambda: _path(reader)) if with_persistent else [] for _ in range(2))

        def run(view: View) -> bytes:
            watches, tree = view.watches, view.tree
            missed = [watches.restore(path, WatchKind.DATA, tree, seen_zxid) for path in data]
            missed += [watches.restore_exists(path, tree) for path in exist]
            missed += [watches.restore(path, WatchKind.CHILDREN, tree, seen_zxid) for path in children]
            for path in persistent:
                watches.add(watches.persistent, path)
            for path in recursive:
                watches.add(watches.recursive, path)
            for event in missed:
                if event is not None:
                    view.notify(event)
            return _NOTHING

        return Read(run)

    return parser


def _add_watch(reader: JuteReader) -> Read:
    path, mode = _path(reader), reader.int32()
    if mode not in (0, 1):
        raise BadArgumentsError(f"{path}: {mode} is not a mode of a watch", path)

    def run(view: View) -> bytes:
        view.watches.add(view.watches.recursive if mode else view.watches.persistent, path)
        return jute.int32(ErrorCode.OK)

    return Read(run)


def _watch_parser(*, remove: bool) -> Callable[[JuteReader], Read]:
    def parser(reader: JuteReader) -> Read:
        path, kind = _path(reader), reader.int32()

        def run(view: View) -> bytes:
            found = view.watches.remove(path, kind) if remove else view.watches.has(path, kind)
            if not found:
                raise RefusedError(ErrorCode.NO_WATCHER)
            return _NOTHING

        return Read(run)

    return parser


def _create_fields(reader: JuteReader) -> tuple[Create, int]:
    """Read the fields of a create; return the operation and its mode, which may be invalid."""
    path, data, acl, mode = reader.string(), reader.buffer(), reader.acl(), reader.int32()
    return Create(path, data, mode in _MODES_EPHEMERAL, mode in _MODES_SEQUENTIAL, acl), mode


def _create_op(reader: JuteReader) -> Create:
    create, mode = _create_fields(reader)
    if not 0 <= mode <= _MODE_CONTAINER:  # a container is only made by its own request: here, it is a usual node
        raise BadArgumentsError(f"{create.path}: {mode} is not a mode of this request", create.path)
    return create


def _create_container_op(reader: JuteReader) -> CreateOwned:
    return CreateOwned(_create_op(reader), CONTAINER_OWNER)


def _create_ttl_op(reader: JuteReader) -> CreateOwned:
    create, mode = _create_fields(reader)
    owner = ttl_owner(reader.int64())
    if owner is None or mode not in _MODES_TTL:
        rule = f"needs the mode 5 or 6, not {mode}, and 1 to {MAX_TTL_MS} ms"
        raise BadArgumentsError(f"{create.path}: a time to live {rule}", create.path)
    return CreateOwned(create, owner)


def _create_op_of_multi(code: int) -> Callable[[JuteReader], TreeOp]:
    """Return the reader of a create in a multi, where the mode says what is created, as in ZooKeeper."""

    def read(reader: JuteReader) -> TreeOp:
        create, mode = _create_fields(reader)
        ttl_ms = reader.int64() if code == OpCode.CREATE_TTL else -1
        if mode == _MODE_CONTAINER or code == OpCode.CREATE_CONTAINER:
            return CreateOwned(create, CONTAINER_OWNER)
        if code == OpCode.CREATE_TTL and mode not in (*_MODES_EPHEMERAL, 0, 2):
            owner = ttl_owner(ttl_ms) if mode in _MODES_TTL else None
            return CreateOwned(create, owner or _INVALID_OWNER)
        if not 0 <= mode < _MODE_CONTAINER:
            raise RefusedError(ErrorCode.MARSHALLING_ERROR)
        return create

    return read


def _delete_op(reader: JuteReader) -> Delete:
    return Delete(reader.string(), reader.int32())


def _set_op(reader: JuteReader) -> Set:
    return Set(reader.string(), reader.buffer(), reader.int32())


def _check_op(reader: JuteReader) -> Check:
    return Check(reader.string(), reader.int32())


def _validate(op: TreeOp) -> None:
    create = op.create if isinstance(op, CreateOwned) else op
    validate_path(op.path, sequence=isinstance(create, Create) and create.sequence)
    if isinstance(op, CreateOwned) and op.owner == _INVALID_OWNER:
        raise BadArgumentsError(f"{op.path}: the mode or the time to live is invalid", op.path)


def _create_parser(
    read: Callable[[JuteReader], Create | CreateOwned], *, with_stat: bool
) -> Callable[[JuteReader], Write]:
    def parser(reader: JuteReader) -> Write:
        op = read(reader)
        _validate(op)

        def run(draft: Draft, caller: Caller) -> bytes:
            path = draft.apply(op, caller)
            assert isinstance(path, str)
            return jute.string(path) + (jute.stat(draft.node(path).stat()) if with_stat else b"")

        return Write(run)

    return parser


def _delete(reader: JuteReader) -> Write:
    op = _delete_op(reader)
    _validate(op)

    def run(draft: Draft, caller: Caller) -> bytes:
        draft.delete(op, caller)
        return _NOTHING

    return Write(run)


def _delete_container(reader: JuteReader) -> Write:
    path = _path(reader)
    if path == "/":
        raise BadArgumentsError("/: the root cannot be deleted", "/")

    def run(draft: Draft, caller: Caller) -> bytes:
        draft.delete_container(path, caller)
        return _NOTHING

    return Write(run)


def _set_data(reader: JuteReader) -> Write:
    op = _set_op(reader)
    _validate(op)
    return Write(lambda draft, caller: jute.stat(draft.set(op, caller)))


def _set_acl(reader: JuteReader) -> Write:
    path, acl, version = _path(reader), reader.acl(), reader.int32()
    return Write(lambda draft, caller: jute.stat(draft.set_acl(path, acl, version, caller)))


_OPS: dict[int, Callable[[JuteReader], TreeOp]] = {
    **{
        code: _create_op_of_multi(code)
        for code in (OpCode.CREATE, OpCode.CREATE2, OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL)
    },
    OpCode.DELETE: _delete_op,
    OpCode.SET_DATA: _set_op,
    OpCode.CHECK: _check_op,
}


def _multi(reader: JuteReader) -> Write:
    codes: list[int] = []
    ops: list[TreeOp] = []
    while (code := _multi_header(reader)) is not None:
        if code not in _OPS:
            raise RefusedError(ErrorCode.UNIMPLEMENTED)
        _require_multi_room(len(ops))
        ops.append(_OPS[code](reader))
        codes.append(_code_of_result(code, ops[-1]))

    def run(draft: Draft, caller: Caller) -> bytes:
        answers: list[bytes] = []

        def applied(result: OpResult, own: Draft) -> None:
            answers.append(_multi_result(codes[len(answers)], result, own))

        try:
            _validate_all(ops)
            draft.multi(ops, caller, applied)
        except RegistryError as error:
            return b"".join(_multi_error(code_of(result)) for result in error.results) + _END_OF_MULTI
        return b"".join(answers) + _END_OF_MULTI

    return Write(run)


def _code_of_result(code: int, op: TreeOp) -> int:
    """Return the code of an operation in the answer to its multi: that of a create says whether there is a stat."""
    if isinstance(op, CreateOwned):
        return OpCode.CREATE2
    return OpCode.CREATE if code == OpCode.CREATE_TTL else code


def _validate_all(ops: Sequence[TreeOp]) -> None:
    for index, op in enumerate(ops):
        try:
            _validate(op)
        except BadArgumentsError as error:
            raise multi_failure(ops, index, error) from None


def _require_multi_room(count: int) -> None:
    if count >= _MAX_MULTI_OPS:
        raise RefusedError(ErrorCode.BAD_ARGUMENTS)


def _multi_header(reader: JuteReader) -> int | None:
    """Return the code of the next operation; None at the end."""
    code, is_done, _error = reader.int32(), reader.boolean(), reader.int32()
    return None if is_done else code


def _header_of(code: int, error: int, *, is_done: bool = False) -> bytes:
    return jute.int32(code) + jute.boolean(is_done) + jute.int32(error)


_END_OF_MULTI = _header_of(OpCode.ERROR, -1, is_done=True)


def _multi_error(code: ErrorCode) -> bytes:
    return _header_of(OpCode.ERROR, code) + jute.int32(code)


def _multi_result(code: int, result: OpResult, draft: Draft) -> bytes:
    header = _header_of(code, ErrorCode.OK)
    if isinstance(result, Stat):
        return header + jute.stat(result)
    if isinstance(result, str):
        return header + jute.string(result) + (jute.stat(draft.node(result).stat()) if code == OpCode.CREATE2 else b"")
    return header


def _multi_read(reader: JuteReader) -> Read:
    reads: list[tuple[int, Read]] = []
    while (code := _multi_header(reader)) is not None:
        if code not in (OpCode.GET_DATA, OpCode.GET_CHILDREN):
            raise JuteError(f"the operation {code} is not possible in a multi of reads")
        _require_multi_room(len(reads))
        reads.append((code, _get_data(reader) if code == OpCode.GET_DATA else _get_children(reader)))

    def run(view: View) -> bytes:
        answer = bytearray()
        for code, read in reads:
            try:
                answer += _header_of(code, ErrorCode.OK) + read.run(view)
            except RegistryError as error:
                answer += _multi_error(code_of(error))
            if len(answer) > _MAX_MULTI_READ_BYTES:
                raise RefusedError(ErrorCode.BAD_ARGUMENTS)
        return bytes(answer) + _END_OF_MULTI

    return Read(run)


_get_children = _children_parser(with_stat=False)

_PARSERS: dict[int, Callable[[JuteReader], Read | Write]] = {
    OpCode.CREATE: _create_parser(_create_op, with_stat=False),
    OpCode.CREATE2: _create_parser(_create_op, with_stat=True),
    OpCode.CREATE_CONTAINER: _create_parser(_create_container_op, with_stat=True),
    OpCode.CREATE_TTL: _create_parser(_create_ttl_op, with_stat=True),
    OpCode.DELETE: _delete,
    OpCode.DELETE_CONTAINER: _delete_container,
    OpCode.EXISTS: _exists,
    OpCode.GET_DATA: _get_data,
    OpCode.SET_DATA: _set_data,
    OpCode.GET_ACL: _get_acl,
    OpCode.SET_ACL: _set_acl,
    OpCode.GET_CHILDREN: _get_children,
    OpCode.GET_CHILDREN2: _children_parser(with_stat=True),
    OpCode.SYNC: _sync,
    OpCode.MULTI: _multi,
    OpCode.MULTI_READ: _multi_read,
    OpCode.CHECK_WATCHES: _watch_parser(remove=False),
    OpCode.REMOVE_WATCHES: _watch_parser(remove=True),
    OpCode.ADD_WATCH: _add_watch,
    OpCode.SET_WATCHES: _set_watches_parser(with_persistent=False),
    OpCode.SET_WATCHES2: _set_watches_parser(with_persistent=True),
    OpCode.GET_EPHEMERALS: _get_ephemerals,
    OpCode.GET_ALL_CHILDREN_NUMBER: _get_all_children_number,
    OpCode.WHO_AM_I: _who_am_i,
}
