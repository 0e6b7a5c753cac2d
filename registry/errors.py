"""What can go wrong between a caller and the registry.

The classes mirror ZooKeeper's result codes one to one, so that a caller cannot tell the embedded store
from an ensemble by its errors. An error of a `multi` is the error of the operation that failed, with
`op_index` and `results` filled in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class RegistryError(Exception):
    """Base of everything that registry/ raises."""

    # Set when the error came out of a multi: index of the operation that failed, and for every operation
    # its own error (RolledBackError before the failed one, RuntimeInconsistencyError after it).
    op_index: int | None = None
    results: Sequence[RegistryError] = ()

    def __init__(self, message: str, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class NoNodeError(RegistryError):
    """The node, or the parent of a node to be created, does not exist (-101)."""


class NodeExistsError(RegistryError):
    """A node to be created is there already (-110)."""


class BadVersionError(RegistryError):
    """The node's version is not the one that a set, delete or check expected (-103)."""


class NotEmptyError(RegistryError):
    """A node to be deleted has children (-111)."""


class NoChildrenForEphemeralsError(RegistryError):
    """An ephemeral node cannot be a parent (-108)."""


class BadArgumentsError(RegistryError):
    """The path is malformed, or the operation is not possible on it, such as deleting the root (-8)."""


class InvalidAclError(RegistryError):
    """An ACL list is empty, or names an identity that the session cannot have (-114)."""


class NoAuthError(RegistryError):
    """The node's ACL does not let this session do that (-102)."""


class DataTooLargeError(RegistryError):
    """A request exceeds what ZooKeeper takes in one packet (jute.maxbuffer, 1 MiB)."""


class RolledBackError(RegistryError):
    """In a multi: an operation that would have succeeded, but a later one failed (0)."""


class RuntimeInconsistencyError(RegistryError):
    """In a multi: an operation that was not tried, because an earlier one failed (-2)."""


class ConnectionLossError(RegistryError):
    """The connection was lost with the request under way: it may have been applied or not (-4)."""


class SessionExpiredError(RegistryError):
    """The session is gone with its ephemeral nodes; `start()` opens a new one (-112)."""


class RegistryClosedError(RegistryError):
    """The registry was not started, or has been closed."""


class RegistryInUseError(RegistryError):
    """Another process has the embedded registry's file open."""


class RegistryCorruptError(RegistryError):
    """The embedded registry's file cannot be read as one."""


class RegistryStorageError(RegistryError):
    """The embedded registry could not make a write durable; it takes no more work from then on."""


class RegistryFullError(RegistryError):
    """The disk of the embedded registry is full: the write was not applied, and may be tried again."""


class ZnodeFormatError(RegistryError):
    """A znode's content breaks the rule that Kafka has for its path."""

    def __init__(self, path: str, rule: str) -> None:
        super().__init__(f"{path}: {rule}", path)
        self.rule = rule
