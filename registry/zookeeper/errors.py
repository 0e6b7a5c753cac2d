"""The translation of kazoo's exceptions (ZooKeeper's result codes) to the registry's errors."""

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
    kazoo.BadArgumentsError: (BadArgumentsError, "ZooKeeper refuses the arguments"),
    kazoo.NoNodeError: (NoNodeError, "there is no such node"),
    kazoo.NoAuthError: (NoAuthError, "the ACL does not allow it"),
    kazoo.AuthFailedError: (NoAuthError, "the servers require a login or a client certificate"),
    kazoo.SessionClosedRequireSaslError: (NoAuthError, "the servers require a login with SASL"),
    kazoo.BadVersionError: (BadVersionError, "the version is not the expected one"),
    kazoo.NoChildrenForEphemeralsError: (NoChildrenForEphemeralsError, "the parent is ephemeral"),
    kazoo.NodeExistsError: (NodeExistsError, "the node exists already"),
    kazoo.NotEmptyError: (NotEmptyError, "the node has children"),
    kazoo.InvalidACLError: (InvalidAclError, "the ACL is empty, or has an identity that is not possible here"),
    kazoo.SessionExpiredError: (SessionExpiredError, "the session has expired"),
    kazoo.ConnectionLoss: (ConnectionLossError, "the connection was lost during the request"),
    kazoo.ConnectionClosedError: (ConnectionLossError, "the connection was closed during the request"),
    # The servers did not apply these requests; a caller may treat them as lost: read, then try again.
    kazoo.SessionMovedError: (ConnectionLossError, "the session has moved to another server"),
    kazoo.ThrottledOpError: (ConnectionLossError, "the server is overloaded"),
    kazoo.RequestTimeoutError: (ConnectionLossError, "the servers did not agree on the request in time"),
}


LOST = (kazoo.ConnectionLoss, kazoo.ConnectionClosedError)
"""kazoo's errors that mean the end of a connection; a change of its state follows."""


def translated(error: Exception, path: str, *, creates: bool = False) -> RegistryError:
    """Return the registry's error for one of kazoo's. `creates`: in a create, the missing node is the parent."""
    kind, meaning = _MEANINGS.get(type(error), (RegistryError, f"ZooKeeper answered {error!r}"))
    if kind is NoNodeError and creates:
        slash = path.rindex("/")  # not parent_of: a sequential path may end with a slash
        path = path[:slash] or "/"
    return kind(f"{path}: {meaning}", path)


def multi_error(ops: Sequence[Op], results: Sequence[object]) -> RegistryError | None:
    """Return the error of the operation that failed, with `op_index` and `results` set; None if none failed."""
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
