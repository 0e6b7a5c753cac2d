"""A follower's fetch session: what each request names, and where a new session begins."""

import pytest

from protocol.error_codes import ErrorCode
from replication.follower_session import FollowerSession, WantedPartition
from replication.inter_broker_protocol import InterBrokerProtocol
from replication.leader_endpoint import LeaderEndpoint

ID, OTHER_ID = b"1" * 16, b"2" * 16


def wanted(offset=0, topic_id=ID):
    return WantedPartition(topic_id, offset, 0, -1, 0)


def begun(session, partitions):
    session.changes(partitions, by_id=True)
    session.answered(ErrorCode.NONE, 7)
    return session


def test_only_changed_partitions_are_named():
    session = FollowerSession()
    first = {("t", 0): wanted(), ("t", 1): wanted()}
    assert session.changes(first, by_id=True) == (first, [])
    assert (session.session_id, session.epoch) == (0, 0)
    session.answered(ErrorCode.NONE, 7)
    assert (session.session_id, session.epoch) == (7, 1)
    second = {("t", 0): wanted(5), ("t", 2): wanted()}
    named, forgotten = session.changes(second, by_id=True)
    assert named == {("t", 0): wanted(5), ("t", 2): wanted()}
    assert forgotten == [(("t", 1), wanted())]
    session.answered(ErrorCode.NONE, 7)
    assert session.epoch == 2
    assert session.changes(second, by_id=True) == ({}, [])


def test_a_recreated_topic_is_another_topic():
    session = begun(FollowerSession(), {("t", 0): wanted(5)})
    named, forgotten = session.changes({("t", 0): wanted(0, OTHER_ID)}, by_id=True)
    assert named == {("t", 0): wanted(0, OTHER_ID)}
    assert forgotten == [(("t", 0), wanted(5))]


@pytest.mark.parametrize(
    ("code", "session_id"),
    [(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0), (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 7)],
)
def test_after_an_error_all_partitions_are_named_again(code, session_id):
    """And the leader's old session is named where it may still be there."""
    partitions = {("t", 0): wanted()}
    session = begun(FollowerSession(), partitions)
    session.changes(partitions, by_id=True)
    session.answered(code, 0)
    assert (session.session_id, session.epoch) == (session_id, 0)
    assert session.changes(partitions, by_id=True) == (partitions, [])


def test_a_leader_without_a_free_session():
    partitions = {("t", 0): wanted()}
    session = FollowerSession()
    session.changes(partitions, by_id=True)
    session.answered(ErrorCode.NONE, 0)
    assert not session.is_incremental
    assert session.changes(partitions, by_id=True) == (partitions, [])


def test_a_change_between_topic_ids_and_names_begins_a_new_session():
    partitions = {("t", 0): wanted()}
    session = begun(FollowerSession(), partitions)
    assert session.changes(partitions, by_id=False) == (partitions, [])
    assert (session.session_id, session.epoch) == (0, 0)


def test_the_session_epoch_wraps_to_one():
    session = begun(FollowerSession(), {("t", 0): wanted()})
    session.epoch = 2**31 - 1
    session.answered(ErrorCode.NONE, 7)
    assert session.epoch == 1


@pytest.mark.parametrize(
    ("release", "keeps_session", "has_one"),
    [("3.9", True, True), ("3.9", False, False), ("1.1", True, True), ("1.0", True, False), ("1.0", False, False)],
)
def test_when_a_follower_uses_a_session(release, keeps_session, has_one):
    """Sessions are there from Kafka 1.1 on; introductions do without."""
    versions = InterBrokerProtocol(release)
    endpoint = LeaderEndpoint(1, None, versions, None, lambda: 0, keeps_session=keeps_session)
    assert (endpoint.session is not None) is has_one
