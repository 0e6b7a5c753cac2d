"""What the controller knows of topics, ids and states while topics come, change and go."""

import pytest

from broker.controller.context import ControllerContext, Leadership
from registry.znodes.topics import PartitionStateZnode, TopicZnode

ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))
STATE = Leadership(PartitionStateZnode(leader=1, leader_epoch=0, isr=[1], controller_epoch=1), 0)


def topic(partitions, topic_id=ID):
    return TopicZnode(partitions={one: [1] for one in range(partitions)}, topic_id=topic_id)


@pytest.fixture
def context():
    """A topic t with two partitions, of which the first has a state."""
    context = ControllerContext()
    context.take_topic("t", topic(2))
    context.leaderships["t", 0] = STATE
    return context


def test_partitions_without_a_state_are_those_that_had_none_whenever_one_asks(context):
    assert context.without_state() == [("t", 1)]
    assert context.without_state() == [("t", 1)]
    context.leaderships["t", 1] = STATE
    assert context.without_state() == []
    assert context.without_state() == []


def test_a_topic_that_has_all_its_states_does_not_hide_another(context):
    context.take_topic("u", topic(1, OTHER_ID))
    context.leaderships["u", 0] = STATE
    context.take_topic("v", topic(1, None))
    for _ in range(2):
        assert context.without_state() == [("t", 1), ("v", 0)]


def test_added_partitions_have_no_state_and_the_others_keep_theirs(context):
    context.leaderships["t", 1] = STATE
    assert context.without_state() == []
    context.take_topic("t", topic(4))
    assert context.without_state() == [("t", 2), ("t", 3)]


def test_partitions_that_a_topic_no_longer_has_are_forgotten(context):
    context.leaderships["t", 1] = STATE
    context.unreadable = {("t", 1), ("u", 1)}
    context.offline_dirs = {1: {("t", 0), ("t", 1), ("u", 1)}}
    context.stopped = {2: {("t", 1)}}
    context.take_topic("t", topic(1))
    assert context.leaderships.keys() == {("t", 0)}
    assert context.unreadable == {("u", 1)}
    assert context.offline_dirs == {1: {("t", 0), ("u", 1)}}
    assert context.stopped == {2: set()}


def test_a_topic_with_another_id_is_another_topic(context):
    context.take_topic("t", topic(2, OTHER_ID))
    assert context.leaderships == {}
    assert context.without_state() == [("t", 0), ("t", 1)]
    assert context.topic_name(OTHER_ID) == "t"
    assert context.topic_name(ID) is None


def test_a_topic_that_gets_an_id_keeps_its_states(context):
    context.take_topic("u", topic(1, None))
    context.leaderships["u", 0] = STATE
    context.take_topic("u", topic(1, OTHER_ID))
    assert context.leaderships["u", 0] == STATE
    assert context.topic_name(OTHER_ID) == "u"


def test_nothing_is_left_of_a_forgotten_topic(context):
    context.deleting.add("t")
    context.offline_dirs = {1: {("t", 0)}}
    context.forget("t")
    assert context.leaderships == {}
    assert context.without_state() == []
    assert context.topic_name(ID) is None
    assert context.offline_dirs == {1: set()}
    assert context.deleting == set()


def test_a_state_whose_znode_is_gone_is_missing_again(context):
    context.leaderships["t", 1] = STATE
    assert context.without_state() == []
    context.forget_state(("t", 0))
    assert context.without_state() == [("t", 0)]


def test_the_state_of_an_unknown_topic_can_be_forgotten(context):
    context.leaderships["t", 1] = STATE
    context.forget_state(("unknown", 0))
    assert context.without_state() == []
