"""Shortens the queue of a broker that does not answer: removes what newer requests in the queue supersede.

A state that the controller sends is complete, so of two states of a partition the newer one is enough. Requests are
joined as if the controller had decided both at the same time:

- A LeaderAndIsr takes the position of the one before it: it stays ahead of the UpdateMetadata that advertises it. A
  replica that is new in either is new.
- An UpdateMetadata absorbs the one before it, and keeps its own position at the end.
- No request passes a StopReplica, and StopReplicas are not joined: each has its own answer.
- A topic that is deleted and recreated is two topics: requests about the second topic neither pass nor absorb the
  UpdateMetadata with the deletion of the first.

So between two StopReplicas a queue holds one request of each kind. There are as many StopReplicas as the broker has
replicas to stop. Each deletion and recreation of a topic adds a request.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, TypeVar

from broker.cluster.metadata_cache import LEADER_DURING_DELETE
from protocol.message import Message
from protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrTopicState
from protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataTopicState

OnAnswer = Callable[[Message], None]
S = TypeVar("S", LeaderAndIsrTopicState, UpdateMetadataTopicState)


class QueuedRequest(NamedTuple):
    """A request to one broker, its version, and the callback for the answer."""

    request: Message
    version: int
    on_answer: OnAnswer | None


def without_superseded(queue: Iterable[QueuedRequest]) -> list[QueuedRequest]:
    """Return the queue with its requests joined as the module describes. Changes the requests."""
    kept: list[QueuedRequest] = []
    for item in queue:
        request = item.request
        if isinstance(request, LeaderAndIsrRequest):
            _add_leader_and_isr(kept, item, request)
        elif isinstance(request, UpdateMetadataRequest):
            _add_update_metadata(kept, item, request)
        else:
            kept.append(item)
    return kept


def _add_leader_and_isr(kept: list[QueuedRequest], item: QueuedRequest, newer: LeaderAndIsrRequest) -> None:
    topics = {topic.topic_name for topic in newer.topic_states}
    for index in reversed(range(len(kept))):
        older = kept[index].request
        if isinstance(older, LeaderAndIsrRequest):
            _join_leader_and_isr(older, newer)
            kept[index] = item
            return
        if not isinstance(older, UpdateMetadataRequest) or _deletes(older, topics):
            break
    kept.append(item)


def _add_update_metadata(kept: list[QueuedRequest], item: QueuedRequest, newer: UpdateMetadataRequest) -> None:
    topics = {topic.topic_name for topic in newer.topic_states}
    for index in reversed(range(len(kept))):
        older = kept[index].request
        if isinstance(older, UpdateMetadataRequest):
            if _deletes(older, topics):
                break
            newer.topic_states = _newest(older.topic_states, newer.topic_states)
            del kept[index]
            break
        if not isinstance(older, LeaderAndIsrRequest):
            break
        topics |= {topic.topic_name for topic in older.topic_states}
    kept.append(item)


def _deletes(request: UpdateMetadataRequest, topics: Collection[str]) -> bool:
    """Return whether the request says that one of these topics is being deleted."""
    return any(
        topic.topic_name in topics and any(state.leader == LEADER_DURING_DELETE for state in topic.partition_states)
        for topic in request.topic_states
    )


def _join_leader_and_isr(older: LeaderAndIsrRequest, newer: LeaderAndIsrRequest) -> None:
    new = {
        (topic.topic_name, state.partition_index)
        for topic in older.topic_states
        for state in topic.partition_states
        if state.is_new
    }
    newer.topic_states = _newest(older.topic_states, newer.topic_states)
    for topic in newer.topic_states:
        for state in topic.partition_states:
            state.is_new = state.is_new or (topic.topic_name, state.partition_index) in new
    leaders = {leader.broker_id: leader for leader in (*older.live_leaders, *newer.live_leaders)}
    newer.live_leaders = [leaders[broker_id] for broker_id in sorted(leaders)]


def _newest(older: list[S], newer: list[S]) -> list[S]:
    """Return the states of both; if both have a partition, the newer state."""
    topics = {topic.topic_name: topic for topic in older}
    for topic in newer:
        before = topics.get(topic.topic_name)
        if before is not None:
            named = {state.partition_index for state in topic.partition_states}
            topic.partition_states[:0] = [one for one in before.partition_states if one.partition_index not in named]
        topics[topic.topic_name] = topic
    return list(topics.values())
