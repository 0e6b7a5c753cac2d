"""Directories in memory, if the system has a tmpfs.

For tests whose disk is simulated anyway and that write and delete small files by the thousand: several times as fast,
and no sync of another test's broker is waited for.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SHARED_MEMORY = "/dev/shm"
_BASE = _SHARED_MEMORY if os.access(_SHARED_MEMORY, os.W_OK) else None


@contextmanager
def memory_directory(prefix: str) -> Iterator[Path]:
    """A new directory, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix=f"{prefix}-", dir=_BASE, ignore_cleanup_errors=True) as path:
        yield Path(path)
