"""Disk space that the embedded registry keeps for the writes that make room on a full disk.

The space is a file of `RESERVE_BYTES` beside the database, `<database>-reserve`. Only its size matters, not its
content. When a write that may use the reserve finds the disk full, the file is shortened by `STEP_BYTES`, and the write
is repeated at once. Steps are small because any other writer on the disk may take the space first. When the disk has
room, the file grows again. After a crash in between, the next start finds a shorter file and extends it, or uses what
is left.

`may_use_reserve` is the rule for the writes: they delete nodes, or they are small and are needed to start a broker, to
delete a topic, or to change settings such as the retention of a topic.
"""

from __future__ import annotations

import errno
import logging
import os
from typing import TYPE_CHECKING

from registry.paths import parent_of

if TYPE_CHECKING:
    from pathlib import Path

    from registry.embedded.tree import TreeNode

logger = logging.getLogger(__name__)

RESERVE_BYTES = 1 << 20
STEP_BYTES = 64 << 10
"""Both are multiples of the block sizes of common file systems."""

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)

_BLOCK_BYTES = 4096
_MOST_GROWTH_BYTES = 4096
_NEW_NODES = (
    "/admin/delete_topics/",
    "/config/topics/",
    "/config/brokers/",
    "/config/changes/",
    "/log_dir_event_notification/",
)
_TOPICS = "/brokers/topics"


class Reserve:
    """The file. Its methods block, and raise nothing: without a reserve the registry works, too."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def fill(self) -> bool:
        """Extend the file to its full size, as far as possible. Return False if the disk has no room beyond that."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                has_room = _extend(descriptor)
                os.ftruncate(descriptor, min(os.fstat(descriptor).st_size, RESERVE_BYTES))
            finally:
                os.close(descriptor)
        except OSError as error:
            logger.warning("%s: there is no reserve for a full disk: %s", self.path, error)
            return True
        return has_room

    def release(self) -> bool:
        """Give one step back to the file system; return False if nothing is left."""
        try:
            size = self.path.stat().st_size
            if size:
                os.truncate(self.path, max(0, min(size, RESERVE_BYTES) - STEP_BYTES))
        except OSError:
            return False
        return size > 0


def _extend(descriptor: int) -> bool:
    """Extend the reserve and one step more; return False if the disk is full. Raises OSError."""
    step = STEP_BYTES
    while (missing := RESERVE_BYTES + STEP_BYTES - os.fstat(descriptor).st_size) > 0:
        try:
            _allocate(descriptor, RESERVE_BYTES + STEP_BYTES - missing, min(step, missing))
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            step //= 2  # also takes what is left below a full step
            if step < _BLOCK_BYTES:
                return False
    return True


def _allocate(descriptor: int, position: int, size: int) -> None:
    """Extend a file by a range that has blocks on the disk. Raises OSError."""
    try:
        os.posix_fallocate(descriptor, position, size)
    except AttributeError:  # macOS
        os.pwrite(descriptor, bytes(size), position)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
        os.pwrite(descriptor, bytes(size), position)


def may_use_reserve(path: str, before: TreeNode | None, after: TreeNode | None) -> bool:
    """Return whether a change of one node may use the reserve. `before` and `after` are None if there is no node."""
    if after is None or after.is_ephemeral:
        return True
    growth = len(after.data or b"") - (0 if before is None else len(before.data or b""))
    if before is None and not path.startswith(_NEW_NODES):
        return False
    # The znode of a topic grows by new partitions.
    return growth <= (0 if parent_of(path) == _TOPICS else _MOST_GROWTH_BYTES)
