"""ZooKeeper's result codes, as kazoo hands them over, in the registry's own errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kazoo import exceptions as kazoo

from registry.errors import (
    BadArgumentsError,
    BadVersionError,
    ConnectionLossError,
    InvalidAclError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RegistryError,
    RolledBackError,
    RuntimeInconsistencyError,
    SessionExpiredError,
)
from registry.interface import Create

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.interface import Op

_MEANINGS: dict[type[Exception], tuple[type[RegistryError], str]] = {
    kazoo.RolledBackError: (RolledBackError, "rolled back"),
    kazoo.RuntimeInconsistency: (RuntimeInconsistencyError, "not tried"),
    kazoo.BadArgumentsError: (BadArgumentsError, "ZooKeeper does not take that"),
    kazoo.NoNodeError: (NoNodeError, "there is no such node"),
    kazoo.NoAuthError: (NoAuthError, "the ACL does not allow it"),
    kazoo.BadVersionError: (BadVersionError, "the version is another than expected"),
    kazoo.NoChildrenForEphemeralsError: (NoChildrenForEphemeralsError, "the parent is ephemeral"),
    kazoo.NodeExistsError: (NodeExistsError, "the node exists already"),
    kazoo.NotEmptyError: (NotEmptyError, "the node has children"),
    kazoo.InvalidACLError: (InvalidAclError, "the ACL is empty, or names an identity that cannot be in one here"),
    kazoo.SessionExpiredError: (SessionExpiredError, "the session has expired"),
    kazoo.ConnectionLoss: (ConnectionLossError, "the connection was lost with the request under way"),
    kazoo.ConnectionClosedError: (ConnectionLossError, "the connection was closed with the request under way"),
    # The servers did not apply these, but a caller that looks again and tries again does the right thing.
    kazoo.SessionMovedError: (ConnectionLossError, "the session has moved to another server"),
    kazoo.ThrottledOpError: (ConnectionLossError, "the server is overloaded"),
    kazoo.RequestTimeoutError: (ConnectionLossError, "the servers did not agree on the request in time"),
}


LOST = (kazoo.ConnectionLoss, kazoo.ConnectionClosedError)
"""kazoo's errors that mean the end of a connection, and so come with a change of its state."""


def translated(error: Exception, path: str, *, creates: bool = False) -> RegistryError:
    """The registry's error for one of kazoo's. `creates`: what is missing then is the parent."""
    kind, meaning = _MEANINGS.get(type(error), (RegistryError, f"ZooKeeper answered {error!r}"))
    if kind is NoNodeError and creates:
        slash = path.rindex("/")  # not parent_of: a sequential path may end with a slash
        path = path[:slash] or "/"
    return kind(f"{path}: {meaning}", path)


def multi_error(ops: Sequence[Op], results: Sequence[object]) -> RegistryError | None:
    """The error of the operation that failed, with those of the others; None where none did."""
    errors = [
        translated(result, op.path, creates=isinstance(op, Create))
        for op, result in zip(ops, results, strict=False)
        if isinstance(result, Exception)
    ]
    for index, error in enumerate(errors):
        if not isinstance(error, RolledBackError):
            error.op_index = index
            error.results = errors
            return error
    return None
