"""ControlledShutdown: other replicas take over what a broker leads, and its followers are stopped.

A repeated request moves what could not be moved before. If the broker has the only in-sync replica of a partition, it
leads the partition until the end.
"""

from __future__ import annotations

import logging

from broker.controller.context import ControllerContext, TopicPartition
from broker.controller.partitions import PartitionLeaders
from broker.controller.stopped_replicas import StoppedReplicas
from broker.errors import RequestError
from protocol.error_codes import ErrorCode
from protocol.sentinels import UNKNOWN_BROKER_EPOCH

logger = logging.getLogger(__name__)


class Shutdowns:
    """Prepares brokers for their shutdown."""

    def __init__(self, context: ControllerContext, leaders: PartitionLeaders, stopped: StoppedReplicas) -> None:
        self._context = context
        self._leaders = leaders
        self._stopped = stopped

    async def relieve(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        """Move leaders and stop followers. Return the partitions with several replicas that the broker still leads.

        Raises RequestError: BROKER_NOT_AVAILABLE, STALE_BROKER_EPOCH.
        """
        context = self._context
        broker = context.brokers.get(broker_id)
        if broker is None:
            raise RequestError(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker id {broker_id} does not exist.")
        if broker_epoch != UNKNOWN_BROKER_EPOCH and broker_epoch < broker.epoch:
            raise RequestError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"broker {broker_id} sends broker epoch {broker_epoch}; {broker.epoch} is registered",
            )
        if broker_id not in context.shutting_down:
            logger.info("broker %d is shutting down", broker_id)
        context.shutting_down.add(broker_id)
        held = [
            key
            for key in context.partitions_on(broker_id)
            if len(context.replicas(key)) > 1 and key in context.leaderships and key[0] not in context.deleting
        ]
        led = [key for key in held if context.leaderships[key].state.leader == broker_id]
        await self._leaders.elect_for_shutdown(led)
        followed = [key for key in held if context.leaderships[key].state.leader != broker_id and key not in led]
        for key in followed:
            self._stopped.stop(broker_id, key, delete=False)
        await self._leaders.remove_from_isr(broker_id, followed)
        return sorted(context.led_by(broker_id))
