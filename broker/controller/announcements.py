"""Who is told what: newcomers everything, the others what they have not been told yet.

A newcomer is a live broker that has not been told what it leads: one that has just come, or listens elsewhere now.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from broker.controller.broker_channels import BrokerChannels, CreateTask
from broker.controller.context import ControllerContext, LiveBroker
from broker.controller.partition_states import PartitionStates
from broker.controller.stopped_replicas import StoppedReplicas

logger = logging.getLogger(__name__)


class Announcements:
    """Of one controller, in one term after the other."""

    def __init__(
        self, context: ControllerContext, channels: BrokerChannels, states: PartitionStates, stopped: StoppedReplicas
    ) -> None:
        self._context = context
        self._channels = channels
        self._states = states
        self._stopped = stopped
        self._newcomers: set[int] = set()

    def welcome(self, brokers: dict[int, LiveBroker], create_task: CreateTask) -> None:
        """Take over who is alive, and tell all of them; what newcomers lead they are told by `tell`."""
        before = self._context.brokers
        arrived = brokers.keys() - before.keys()
        moved = [id_ for id_, broker in brokers.items() if id_ in before and before[id_] != broker]
        logger.info("live brokers: %s; newly come: %s", sorted(brokers), sorted(arrived))
        self._context.brokers = brokers
        self._newcomers |= arrived
        for broker_id in moved:  # it may listen elsewhere now; what was queued for it is said again
            self._channels.stop(broker_id)
            self._newcomers.add(broker_id)
        self._channels.start({*arrived, *moved}, create_task)
        self._channels.update_metadata(brokers.keys() - arrived, ())
        self._channels.update_metadata(arrived, self._context.all_partitions())

    def part_with(self, brokers: Iterable[int]) -> None:
        """These have gone: tell them nothing more."""
        for broker_id in brokers:
            self._channels.stop(broker_id)
            self._newcomers.discard(broker_id)

    def tell(self) -> None:
        """Tell what has been written since the last time, and who is to stop which replicas."""
        told = self._states.take_unannounced()
        newcomers, self._newcomers = self._newcomers, set()
        if newcomers:
            everything = list(self._context.all_partitions())
            for broker_id in newcomers:
                self._channels.leader_and_isr(broker_id, everything, new=told.new)
            self._channels.update_metadata(newcomers, everything)
        self._channels.announce(told, except_to=newcomers)
        self._stopped.tell(self._channels)

    def clear(self) -> None:
        """The term is over: tell nobody anything."""
        self._channels.stop_all()
        self._newcomers.clear()
