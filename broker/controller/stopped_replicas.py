"""Replicas that brokers must stop, and delete if they are no longer replicas.

The requests are collected while an event is handled, and sent with the states that belong to them. A broker that is not
alive gets no request: after its next registration, it is sent all its replicas, and must find the superfluous ones
itself.
"""

from __future__ import annotations

from broker.controller.broker_channels import BrokerChannels
from broker.controller.context import ControllerContext, TopicPartition


class StoppedReplicas:
    """The requests that have not been sent yet."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._pending: dict[tuple[int, bool], set[TopicPartition]] = {}

    def clear(self) -> None:
        """Start another term: drop the requests."""
        self._pending.clear()

    def stop(self, broker_id: int, key: TopicPartition, *, delete: bool) -> None:
        """Have a broker stop a replica.

        If the replica is not deleted, the broker is sent no more states of its partition until it registers again.
        """
        if broker_id in self._context.brokers:
            self._pending.setdefault((broker_id, delete), set()).add(key)
            if not delete:
                self._context.stopped.setdefault(broker_id, set()).add(key)

    def send(self, channels: BrokerChannels) -> None:
        """Send the requests."""
        pending, self._pending = self._pending, {}
        for (broker_id, delete), keys in pending.items():
            if broker_id in self._context.brokers:
                channels.stop_replicas(broker_id, sorted(keys), delete=delete)
