"""What is checked of a request before anything is sent: paths, types and its length.

A ZooKeeper server answers a packet beyond jute.maxbuffer by closing the connection, which would look like a network
fault and be tried again for ever. So the length is worked out first, as the largest that the packet can have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.errors import DataTooLargeError
from registry.interface import MAX_REQUEST_BYTES, Create, Set
from registry.paths import validate_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.interface import Op

# Fixed fields of an operation in a multi: its header, the lengths in front of path and data, version or flags, and
# an ACL that is open to all. Generous.
_FIXED_BYTES = 64
_ACL_ENTRY_BYTES = 12  # permissions and two lengths


def validate_ops(ops: Sequence[Op], prefix_bytes: int = 0) -> None:
    """Raise BadArgumentsError, TypeError or DataTooLargeError. `prefix_bytes`: what a chroot adds to each path."""
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
        rule = f"the request has {size} bytes, ZooKeeper takes {MAX_REQUEST_BYTES} (jute.maxbuffer)"
        raise DataTooLargeError(rule, ops[0].path)
