"""Nodes that the server deletes by itself: containers, and nodes with a time to live (TTL).

A container is deleted when its last child is gone; before its first child it stays. A node with a TTL is deleted when
it has no children and was not changed for its TTL. Both may have children, unlike ephemeral nodes.

They are marked in the node's owner as in ZooKeeper (EphemeralType): a session id is positive, these marks are negative.
Clients do not see them: the stat has the owner 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from registry.embedded.tree import TreeNode

CONTAINER_OWNER = -1 << 63
MAX_TTL_MS = (1 << 40) - 1
_TTL_MARK = -1 << 56  # the first byte is 0xff, the last five bytes are the TTL


def ttl_owner(ttl_ms: int) -> int | None:
    """Return the owner of a node with a TTL; None if the TTL is not from 1 to MAX_TTL_MS."""
    return _TTL_MARK | ttl_ms if 0 < ttl_ms <= MAX_TTL_MS else None


def has_ended(node: TreeNode, now_ms: int) -> bool:
    """Whether the server may delete the node now."""
    if node.num_children or node.ephemeral_owner >= 0:
        return False
    if node.ephemeral_owner == CONTAINER_OWNER:
        return node.creates > 0
    return now_ms - node.mtime > node.ephemeral_owner - _TTL_MARK
