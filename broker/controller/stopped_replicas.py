"""Replicas that their brokers are to stop, and to delete where they are none any more: collected while an event is
handled, said when the states that go with it are told.

A broker that is not there hears nothing: when it comes back it is told all that it holds, and what it has besides is
its own to find out.
"""

from __future__ import annotations

from broker.controller.broker_channels import BrokerChannels
from broker.controller.context import ControllerContext, TopicPartition


class StoppedReplicas:
    """What is still to be said."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._unsaid: dict[tuple[int, bool], set[TopicPartition]] = {}

    def clear(self) -> None:
        """Another term begins."""
        self._unsaid.clear()

    def stop(self, broker_id: int, key: TopicPartition, *, delete: bool) -> None:
        """Have a broker stop a replica. One that is not deleted hears no more of its partition in this life."""
        if broker_id in self._context.brokers:
            self._unsaid.setdefault((broker_id, delete), set()).add(key)
            if not delete:
                self._context.stopped.setdefault(broker_id, set()).add(key)

    def tell(self, channels: BrokerChannels) -> None:
        """Say it."""
        unsaid, self._unsaid = self._unsaid, {}
        for (broker_id, delete), keys in unsaid.items():
            if broker_id in self._context.brokers:
                channels.stop_replicas(broker_id, sorted(keys), delete=delete)
