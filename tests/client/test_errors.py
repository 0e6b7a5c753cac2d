"""The exceptions that stand for error codes are Kafka's, for every code."""

import csv

import pytest

from client import errors
from protocol.error_codes import ErrorCode
from support.reference import REFERENCE

ROWS = list(csv.DictReader((REFERENCE / "tables" / "error-codes.tsv").read_text().splitlines(), delimiter="\t"))
# Kafka's TimeoutException would hide Python's TimeoutError, OffsetMetadataTooLarge lacks the suffix.
RENAMED = {"TimeoutException": "RequestTimedOutError", "OffsetMetadataTooLarge": "OffsetMetadataTooLargeError"}


@pytest.mark.parametrize("row", [row for row in ROWS if row["exception"]], ids=lambda row: row["name"])
def test_every_code_has_kafkas_exception(row):
    made = errors.error_class(int(row["code"]))
    wanted = RENAMED.get(row["exception"], row["exception"].removesuffix("Exception") + "Error")
    if row["exception"].endswith("Exception") and row["exception"] not in RENAMED:
        assert made.__name__ == wanted
    assert getattr(errors, made.__name__) is made
    assert issubclass(made, errors.KafkaError)
    assert made.retriable == (row["retriable"] == "true")
    assert made.code == ErrorCode[row["name"]]
    assert made.code.invalid_metadata == (row["invalid_metadata"] == "true")


def test_names_are_distinct_and_hide_no_builtin():
    names = [errors.class_name(code) for code in ErrorCode if code]
    assert len(set(names)) == len(names)
    import builtins

    assert not [name for name in names if hasattr(builtins, name)]
    assert not set(names) & {"ConnectionLostError", "KafkaError", "ClosedError", "InvalidOptionError"}


def test_import_by_name():
    from client.errors import NotLeaderOrFollowerError, UnknownTopicOrPartitionError

    error = errors.error_for(3, context="topic x")
    assert isinstance(error, UnknownTopicOrPartitionError)
    assert str(error) == "topic x: UNKNOWN_TOPIC_OR_PARTITION"
    with pytest.raises(NotLeaderOrFollowerError, match="NOT_LEADER_OR_FOLLOWER: said so"):
        raise errors.error_for(6, "said so")


def test_a_message_that_is_only_the_name_is_not_repeated():
    assert str(errors.error_for(31, "CLUSTER_AUTHORIZATION_FAILED", context="ACLs")) == (
        "ACLs: CLUSTER_AUTHORIZATION_FAILED"
    )


def test_unknown_names_and_codes():
    with pytest.raises(AttributeError, match="NoSuchError"):
        _ = errors.NoSuchError
    error = errors.error_for(4711)
    assert type(error).__name__ == "UnknownServerError"
    assert "4711" in str(error)
