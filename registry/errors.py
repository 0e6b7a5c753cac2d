"""The exceptions of the registry.

The classes correspond to ZooKeeper's result codes (in parentheses), so that the embedded store and an ensemble raise
the same errors. A failed `multi` raises the error of the operation that failed, with `op_index` and `results` set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


class RegistryError(Exception):
    """Base class of the exceptions that registry/ defines."""

    # Set if a multi raised the error: the index of the operation that failed, and an error for every operation
    # (RolledBackError for those before the failed one, RuntimeInconsistencyError for those after it).
    op_index: int | None = None
    results: Sequence[RegistryError] = ()

    def __init__(self, message: str, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class NoNodeError(RegistryError):
    """The node, or the parent of a node to be created, does not exist (-101)."""


class NodeExistsError(RegistryError):
    """The node to be created exists already (-110)."""


class BadVersionError(RegistryError):
    """The node's version differs from the version that a set, delete or check expects (-103)."""


class NotEmptyError(RegistryError):
    """The node to be deleted has children (-111)."""


class NoChildrenForEphemeralsError(RegistryError):
    """An ephemeral node cannot be a parent (-108)."""


class BadArgumentsError(RegistryError):
    """The path is malformed, or the operation is not possible on it, such as deleting the root (-8)."""


class InvalidAclError(RegistryError):
    """An ACL list is empty, or has an identity that is not possible for the session (-114)."""


class NoAuthError(RegistryError):
    """The node's ACL does not permit the operation to this session (-102)."""


class DataTooLargeError(RegistryError):
    """A request is larger than the largest packet that ZooKeeper accepts (jute.maxbuffer, 1 MiB)."""


class RolledBackError(RegistryError):
    """In a multi: the operation was undone because a later one failed (0)."""


class RuntimeInconsistencyError(RegistryError):
    """In a multi: the operation was not tried because an earlier one failed (-2)."""


class ConnectionLossError(RegistryError):
    """The connection was lost during the request, which may or may not have been applied (-4)."""


class RegistryLoginError(ConnectionLossError):
    """The servers refuse the login, so there is no session. Nothing was sent in it."""


class SessionExpiredError(RegistryError):
    """The session has ended and its ephemeral nodes are deleted; `start()` opens a new session (-112)."""


class RegistryClosedError(RegistryError):
    """The registry was not started, or has been closed."""


class RegistryInUseError(RegistryError):
    """Another process has the embedded registry's file open."""


class RegistryCorruptError(RegistryError):
    """The file of the embedded registry is not a valid registry file."""


class RegistryStorageError(RegistryError):
    """The embedded registry could not make a write durable; it refuses all further calls."""


class RegistryFullError(RegistryError):
    """The disk of the embedded registry is full: the write was not applied and may be repeated."""


class ZnodeFormatError(RegistryError):
    """A znode's content breaks a rule of Kafka's format for its path."""

    def __init__(self, path: str, rule: str) -> None:
        super().__init__(f"{path}: {rule}", path)
        self.rule = rule


class ZooKeeperSettingError(RegistryError):
    """A setting of the connection to ZooKeeper has no usable value: its name, and the broken rule; never the value."""

    def __init__(self, setting: str, rule: str) -> None:
        super().__init__(f"{setting}: {rule}")
        self.setting = setting
        self.rule = rule
