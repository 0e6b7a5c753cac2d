"""The queue of a broker that does not answer, without what newer requests in it supersede.

The controller always says everything about a partition, so of two states of it the newer one is enough. Requests are
joined as if the controller had decided both at the same time:

- LeaderAndIsr takes the place of the one before it: it stays ahead of the UpdateMetadata that advertises it, and a
  replica that is new in either is new.
- UpdateMetadata absorbs the one before it, and stays last.
- Nothing passes StopReplica, which is answered by itself.
- A topic that is deleted and created again is two topics: what is said of the second one does not pass the
  UpdateMetadata that says that the first one is deleted, nor absorb it.

So a queue holds one request of each kind between two of StopReplica, and these are as many as the broker has replicas
to stop; a topic that is deleted and created again and again adds a request each time.
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
    """A request to one broker, its version, and who hears the answer."""

    request: Message
    version: int
    on_answer: OnAnswer | None


def without_superseded(queue: Iterable[QueuedRequest]) -> list[QueuedRequest]:
    """The queue with its requests joined where they can be: see the module's text. Changes the requests."""
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
    """Whether it says of one of these topics that it is being deleted."""
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
    """The states of both, of each partition the newer one."""
    topics = {topic.topic_name: topic for topic in older}
    for topic in newer:
        before = topics.get(topic.topic_name)
        if before is not None:
            named = {state.partition_index for state in topic.partition_states}
            topic.partition_states[:0] = [one for one in before.partition_states if one.partition_index not in named]
        topics[topic.topic_name] = topic
    return list(topics.values())
