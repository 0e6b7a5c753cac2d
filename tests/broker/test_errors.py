"""Every error class of ours has its Kafka code, or a reason why no client can ever meet it."""

from __future__ import annotations

import inspect

import pytest

import protocol.errors
import registry.errors
import replication.errors
import storage.errors
from broker.errors import CODES, RequestError, code_of, unexpected_code
from protocol.error_codes import ErrorCode

NEVER_ANSWERED = {
    protocol.errors.ProtocolError: "a base class; what is raised is one of those below it",
    storage.errors.StorageError: "a base class",
    storage.errors.CompactionAbortedError: "no request compacts",
    storage.errors.UncleanableLogError: "no request compacts",
    storage.errors.LoadingStoppedError: "ends the start of a broker that was told to stop",
    storage.errors.LogDirLockedError: "keeps the broker from starting",
    storage.errors.InconsistentBrokerIdError: "keeps the broker from starting",
    storage.errors.InconsistentClusterIdError: "keeps the broker from starting",
    storage.errors.InvalidLogDirectoryNameError: "raised while logs are loaded, before the listeners are open",
    storage.errors.OffsetsOutOfOrderError: "raised to a follower's fetcher, which asked the leader and not a client",
    storage.errors.UnexpectedAppendOffsetError: "raised to a follower's fetcher",
    replication.errors.ReplicationError: "a base class",
    registry.errors.RegistryError: "a base class",
    registry.errors.NoNodeError: "caught where it can happen: a topic, a config or a session is not there",
    registry.errors.NodeExistsError: "caught where it can happen: topic creation and deletion, registration",
    registry.errors.BadVersionError: "caught where it can happen: producer id blocks, growth, controller election",
    registry.errors.InvalidAclError: "keeps the broker from starting: ZooKeeper does not know the session's user",
    registry.errors.NoAuthError: "keeps the broker from starting: it reads and writes the same nodes then",
    registry.errors.ZooKeeperSettingError: "keeps the broker from starting, as a ConfigError",
    registry.errors.RolledBackError: "only inside a multi's results, where the cause is raised",
    registry.errors.RuntimeInconsistencyError: "only inside a multi's results",
    registry.errors.RegistryInUseError: "keeps the broker from starting",
    registry.errors.RegistryCorruptError: "keeps the broker from starting",
    registry.errors.NotEmptyError: "only the controller deletes nodes, and deletes children first",
    registry.errors.NoChildrenForEphemeralsError: "a fault in our own code: nothing is made below an ephemeral node",
    registry.errors.BadArgumentsError: "a fault in our own code: topic names are checked before they become paths",
}


def classes(module):
    return [
        cls
        for _, cls in inspect.getmembers(module, inspect.isclass)
        if issubclass(cls, Exception) and cls.__module__ == module.__name__
    ]


ALL = [
    cls for module in (protocol.errors, storage.errors, replication.errors, registry.errors) for cls in classes(module)
]


@pytest.mark.parametrize("cls", ALL, ids=lambda cls: f"{cls.__module__}.{cls.__name__}")
def test_every_error_class_has_a_code_or_a_reason(cls):
    mapped = any(parent in CODES for parent in cls.__mro__)
    assert mapped != (cls in NEVER_ANSWERED), cls


def test_no_unknown_class_is_listed():
    assert set(CODES) <= set(ALL)
    assert set(NEVER_ANSWERED) <= set(ALL)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RequestError(ErrorCode.INVALID_CONFIG, "x"), ErrorCode.INVALID_CONFIG),
        (storage.errors.RecordTooLargeError(5, 4), ErrorCode.MESSAGE_TOO_LARGE),
        (storage.errors.RecordValidationError("x"), ErrorCode.INVALID_RECORD),
        (OSError(28, "no space"), ErrorCode.KAFKA_STORAGE_ERROR),
        (PermissionError(13, "no"), ErrorCode.KAFKA_STORAGE_ERROR),
        (ValueError("x"), ErrorCode.UNKNOWN_SERVER_ERROR),
        (KeyError("x"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_codes(error, code, caplog):
    assert code_of(error) is code
    assert unexpected_code(error, "Test") is code
    assert bool(caplog.records) == (code is ErrorCode.UNKNOWN_SERVER_ERROR)
