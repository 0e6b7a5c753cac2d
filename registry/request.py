"""Checks of a request before it is sent: paths, types and length.

If a packet is larger than jute.maxbuffer, a ZooKeeper server closes the connection. That would look like a network
fault, and the request would be repeated forever. So an upper bound of the packet's length is checked first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.errors import DataTooLargeError
from registry.interface import MAX_REQUEST_BYTES, Create, Set
from registry.paths import validate_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.interface import Op

# Upper bound of an operation's fixed fields in a multi: header, the lengths of path and data, version or flags, and the
# open ACL.
_FIXED_BYTES = 64
_ACL_ENTRY_BYTES = 12  # permissions and two lengths


def validate_ops(ops: Sequence[Op], prefix_bytes: int = 0) -> None:
    """Raise BadArgumentsError, TypeError or DataTooLargeError. `prefix_bytes`: length of the chroot, for each path."""
    size = 0
    for op in ops:
        validate_path(op.path, sequence=isinstance(op, Create) and op.sequence)
        data = op.data if isinstance(op, (Create, Set)) else None
        if data is not None and not isinstance(data, bytes):
            raise TypeError(f"{op.path}: data must be bytes or None, not {type(data).__name__}")
        size += _FIXED_BYTES + prefix_bytes + len(op.path.encode()) + len(data or b"")
        if isinstance(op, Create) and op.acl is not None:
            size += sum(_ACL_ENTRY_BYTES + len(f"{entry.scheme}{entry.id}".encode()) for entry in op.acl)
    if size > MAX_REQUEST_BYTES:
        rule = f"the request has {size} bytes, ZooKeeper accepts at most {MAX_REQUEST_BYTES} (jute.maxbuffer)"
        raise DataTooLargeError(rule, ops[0].path)
