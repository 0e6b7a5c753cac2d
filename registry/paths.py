"""ZooKeeper's rules for paths, and operations on paths.

A path starts with a slash and does not end with one (except the root, "/"). It has no empty, "." or ".." elements, and
no character that ZooKeeper refuses: control characters, surrogates (so nothing beyond the basic multilingual plane),
the private use area, and the specials from U+FFF0.
"""

from __future__ import annotations

import re

from registry.errors import BadArgumentsError

_REFUSED = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff\U00010000-\U0010ffff]")


def validate_path(path: str, *, sequence: bool = False) -> None:
    """Raise BadArgumentsError unless ZooKeeper accepts the path.

    The path of a sequential node is checked with its number appended, so it may end with a slash.
    """
    if sequence:
        path += "1"
    if not path.startswith("/"):
        raise BadArgumentsError(f"{path!r}: a path must start with a slash", path)
    if path == "/":
        return
    if path.endswith("/"):
        raise BadArgumentsError(f"{path!r}: a path must not end with a slash", path)
    if refused := _REFUSED.search(path):
        rule = f"the character U+{ord(refused[0]):04X} is not allowed in a path"
        raise BadArgumentsError(f"{path!r}: {rule}", path)
    if "//" in path or "/./" in f"{path}/" or "/../" in f"{path}/":
        raise BadArgumentsError(f"{path!r}: a path has no empty, '.' or '..' elements", path)


def parent_of(path: str) -> str:
    """Return the path of the parent; the root's parent is the root."""
    return path[: path.rindex("/")] or "/"


def name_of(path: str) -> str:
    """Return the last element of a path."""
    return path[path.rindex("/") + 1 :]
