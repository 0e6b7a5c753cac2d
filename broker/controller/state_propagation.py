"""Which brokers are sent what: new brokers all states, other brokers the states that they have not been sent yet.

A newcomer is a live broker that has not been sent its partitions: it has just registered, or its address has changed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from broker.controller.broker_channels import BrokerChannels, CreateTask
from broker.controller.context import ControllerContext, LiveBroker
from broker.controller.partition_states import PartitionStates
from broker.controller.stopped_replicas import StoppedReplicas

logger = logging.getLogger(__name__)


class StatePropagation:
    """Sends the states of one controller to the brokers, in each of its terms."""

    def __init__(
        self, context: ControllerContext, channels: BrokerChannels, states: PartitionStates, stopped: StoppedReplicas
    ) -> None:
        self._context = context
        self._channels = channels
        self._states = states
        self._stopped = stopped
        self._new_brokers: set[int] = set()

    def brokers_changed(self, brokers: dict[int, LiveBroker], create_task: CreateTask) -> None:
        """Adopt the live brokers and send them UpdateMetadata. `propagate` sends new brokers their partitions."""
        before = self._context.brokers
        arrived = brokers.keys() - before.keys()
        moved = [id_ for id_, broker in brokers.items() if id_ in before and before[id_] != broker]
        logger.info("live brokers: %s; new: %s", sorted(brokers), sorted(arrived))
        self._context.brokers = brokers
        self._new_brokers |= arrived
        for broker_id in moved:  # its address may have changed; dropped requests are sent again
            self._channels.stop(broker_id)
            self._new_brokers.add(broker_id)
        self._channels.start({*arrived, *moved}, create_task)
        self._channels.update_metadata(brokers.keys() - arrived, ())
        self._channels.update_metadata(arrived, self._context.all_partitions())

    def brokers_removed(self, brokers: Iterable[int]) -> None:
        """Send nothing more to these brokers: their registrations have ended."""
        for broker_id in brokers:
            self._channels.stop(broker_id)
            self._new_brokers.discard(broker_id)

    def propagate(self) -> None:
        """Send what has been written since the last call, and the requests to stop replicas."""
        changes = self._states.take_unannounced()
        new_brokers, self._new_brokers = self._new_brokers, set()
        if new_brokers:
            everything = list(self._context.all_partitions())
            for broker_id in new_brokers:
                self._channels.leader_and_isr(broker_id, everything, new=changes.new)
            self._channels.update_metadata(new_brokers, everything)
        self._channels.announce(changes, except_to=new_brokers)
        self._stopped.send(self._channels)

    def clear(self) -> None:
        """End the term: close all channels."""
        self._channels.stop_all()
        self._new_brokers.clear()
