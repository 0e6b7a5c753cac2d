"""The certainty of a broker about the partitions that it leads: `broker.cluster.certainty`."""

from __future__ import annotations

import pytest

from broker.cluster.certainty import LeadershipCertainty
from registry.interface import ConnectionState

CONNECTED, SUSPENDED, EXPIRED = ConnectionState.CONNECTED, ConnectionState.SUSPENDED, ConnectionState.EXPIRED


class Session:
    """Stands for a registry: its state, and who is told of it."""

    def __init__(self):
        self.state = CONNECTED

    def listen(self, callback):
        self._callback = callback

    def become(self, *states):
        for self.state in states:
            self._callback(self.state)


@pytest.fixture
def session():
    return Session()


@pytest.fixture
def certainty(session):
    return LeadershipCertainty(session, lambda: 7)


def test_a_broker_is_sure_while_it_is_connected(session, certainty):
    assert certainty.is_sure
    session.become(SUSPENDED)
    assert not certainty.is_sure
    session.become(CONNECTED)
    assert certainty.is_sure


@pytest.mark.parametrize(("told", "is_sure"), [(None, False), (7, False), (8, True), (-1, True)])
def test_after_the_end_of_its_session_a_broker_is_sure_when_the_controller_has_sent_the_leaders(
    session, certainty, told, is_sure
):
    session.become(SUSPENDED, EXPIRED, CONNECTED)
    assert not certainty.is_sure
    if told is not None:
        certainty.told(told)
    assert certainty.is_sure is is_sure


def test_what_the_controller_sends_is_not_enough_while_nobody_answers(session, certainty):
    session.become(SUSPENDED)
    certainty.told(8)
    assert not certainty.is_sure
