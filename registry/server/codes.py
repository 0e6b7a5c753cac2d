"""The numbers of ZooKeeper's protocol. Source: ZooDefs, KeeperException and Watcher of ZooKeeper 3.9."""

from __future__ import annotations

from enum import IntEnum

from registry.errors import (
    BadArgumentsError,
    BadVersionError,
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


class OpCode(IntEnum):
    """What a request asks for."""

    CREATE = 1
    DELETE = 2
    EXISTS = 3
    GET_DATA = 4
    SET_DATA = 5
    GET_ACL = 6
    SET_ACL = 7
    GET_CHILDREN = 8
    SYNC = 9
    PING = 11
    GET_CHILDREN2 = 12
    CHECK = 13
    MULTI = 14
    CREATE2 = 15
    RECONFIG = 16
    CHECK_WATCHES = 17
    REMOVE_WATCHES = 18
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    MULTI_READ = 22
    AUTH = 100
    SET_WATCHES = 101
    GET_EPHEMERALS = 103
    GET_ALL_CHILDREN_NUMBER = 104
    SET_WATCHES2 = 105
    ADD_WATCH = 106
    WHO_AM_I = 107
    CLOSE_SESSION = -11
    ERROR = -1


class ErrorCode(IntEnum):
    """The result of a request."""

    OK = 0
    SYSTEM_ERROR = -1
    RUNTIME_INCONSISTENCY = -2
    MARSHALLING_ERROR = -5
    UNIMPLEMENTED = -6
    BAD_ARGUMENTS = -8
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_ACL = -114
    AUTH_FAILED = -115
    NO_WATCHER = -121
    RECONFIG_DISABLED = -123


class EventType(IntEnum):
    """What a watch reports."""

    NODE_CREATED = 1
    NODE_DELETED = 2
    NODE_DATA_CHANGED = 3
    NODE_CHILDREN_CHANGED = 4


_ERRORS: dict[type[RegistryError], ErrorCode] = {
    NoNodeError: ErrorCode.NO_NODE,
    NoAuthError: ErrorCode.NO_AUTH,
    BadVersionError: ErrorCode.BAD_VERSION,
    NoChildrenForEphemeralsError: ErrorCode.NO_CHILDREN_FOR_EPHEMERALS,
    NodeExistsError: ErrorCode.NODE_EXISTS,
    NotEmptyError: ErrorCode.NOT_EMPTY,
    SessionExpiredError: ErrorCode.SESSION_EXPIRED,
    InvalidAclError: ErrorCode.INVALID_ACL,
    BadArgumentsError: ErrorCode.BAD_ARGUMENTS,
    RolledBackError: ErrorCode.OK,
    RuntimeInconsistencyError: ErrorCode.RUNTIME_INCONSISTENCY,
}


def code_of(error: RegistryError) -> ErrorCode:
    """Return the code for an error of the store; those that ZooKeeper does not know are system errors."""
    return _ERRORS.get(type(error), ErrorCode.SYSTEM_ERROR)
