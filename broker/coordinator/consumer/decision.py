"""The decision of a step of a consumer group: the answer, the records to write, timers. No I/O.

A step (membership.py, classic_members.py) changes nothing. `ConsumerGroups` writes the records, applies the decision as
soon as they are in the log, and answers the request when they are committed. If the log refuses them, nothing changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from broker.coordinator.classic.group import Group
from broker.coordinator.consumer.group import ConsumerGroup
from broker.coordinator.consumer.records import ConsumerRecord
from broker.coordinator.consumer.topics import TopicsImage
from broker.coordinator.group_records import Encoded
from broker.coordinator.group_timers import TimerChanges
from protocol.messages.consumer_group_metadata import ConsumerGroupMemberMetadataKey

SESSION, REBALANCE, JOIN, SYNC = "session", "rebalance", "join", "sync"
"""The kinds of timers; JOIN and SYNC are used for members of the classic protocol only."""

R = TypeVar("R", covariant=True)


class Downgrade(NamedTuple):
    """The classic group that takes the place of a consumer group."""

    group: Group
    reason: str | None
    """Why the classic group rebalances; None if it does not."""


class Decision(NamedTuple, Generic[R]):
    """See the module docstring."""

    response: R
    """The answer when the records, and those of earlier steps of the group, are committed."""
    records: Sequence[ConsumerRecord] = ()
    timers: TimerChanges = MappingProxyType({})
    image: TopicsImage | None = None
    """The cluster's topics that the group was compared with; None if it was not."""
    conversion: Sequence[Encoded] = ()
    """Records that change the type of the group. They are written before the others."""
    downgrade: Downgrade | None = None

    @property
    def batch(self) -> list[Encoded]:
        """All records to write."""
        return [*self.conversion, *(record.encoded() for record in self.records)]


def apply_decision(group: ConsumerGroup, decision: Decision[object]) -> TimerChanges:
    """Apply a decision whose records are in the log. Return the changes of timers, also those of removed members."""
    timers: dict[tuple[str, str], int | None] = {}
    for record in decision.records:
        group.apply(record)
        key, value = record
        if value is None and isinstance(key, ConsumerGroupMemberMetadataKey):
            timers |= {(kind, key.member_id): None for kind in (SESSION, REBALANCE, JOIN, SYNC)}
    if decision.image is not None:
        group.image = decision.image
    return {**timers, **decision.timers} if timers else decision.timers
