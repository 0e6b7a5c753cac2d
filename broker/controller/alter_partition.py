"""Changes of an ISR that leaders propose (KIP-497): what the controller takes, and what it refuses and why.

A proposal names the leader epoch and the partition epoch (the version of the state's znode) that it was made at, and
the broker epochs of the replicas in it (KIP-903), so that nobody gets in who has been restarted since it caught up.
What was done already is answered as done, so that a leader may ask twice.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from broker.controller.context import ControllerContext, Leadership, TopicPartition
from broker.controller.partition_states import PartitionStates
from broker.errors import RequestError
from protocol.error_codes import ErrorCode
from registry.errors import BadVersionError
from registry.znodes.topics import LEADER_RECOVERED, LEADER_RECOVERING, PartitionStateZnode

logger = logging.getLogger(__name__)

UNKNOWN_BROKER_EPOCH = -1


class Proposal(NamedTuple):
    """What a leader would have the state be."""

    leader_epoch: int
    partition_epoch: int
    isr: dict[int, int]
    """Broker epoch by broker id, in the order of the ISR; -1 where the leader does not know it."""
    leader_recovery_state: int = LEADER_RECOVERED


Outcome = Leadership | ErrorCode
"""The state as it is now, or why it was not changed."""


class IsrProposals:
    """Decides on them."""

    def __init__(self, context: ControllerContext, states: PartitionStates) -> None:
        self._context = context
        self._states = states

    async def decide(
        self, broker_id: int, broker_epoch: int, proposals: Mapping[TopicPartition, Proposal]
    ) -> dict[TopicPartition, Outcome]:
        """Change what may be changed. Raises RequestError (STALE_BROKER_EPOCH) where that is not a live broker."""
        broker = self._context.brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch:
            known = "none is registered" if broker is None else f"{broker.epoch} is registered"
            raise RequestError(
                ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} speaks with broker epoch {broker_epoch}; {known}"
            )
        while True:
            outcomes = {key: self._judge(broker_id, key, proposal) for key, proposal in proposals.items()}
            accepted = {key: state for key, state in outcomes.items() if isinstance(state, PartitionStateZnode)}
            try:
                await self._states.set(accepted)
                break
            except BadVersionError as error:
                if not error.op_index:
                    raise  # it is the controller epoch
            # Somebody was faster with one of them, or the answer to our own write was lost: it has been read again, and
            # is judged otherwise now.
        self._states.publish(key for key in proposals if key in self._context.leaderships)  # whoever was wrong learns
        written = {key: self._context.leaderships[key] for key in accepted}
        return {
            key: written[key] if isinstance(outcome, PartitionStateZnode) else outcome
            for key, outcome in outcomes.items()
        }

    def _judge(self, broker_id: int, key: TopicPartition, proposal: Proposal) -> PartitionStateZnode | Outcome:
        """The state to be written, the present one where that is what was proposed, or a refusal."""
        leadership = self._context.leaderships.get(key)
        if leadership is None or key in self._context.unreadable or not self._context.partition_exists(key):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        state = leadership.state
        if proposal.partition_epoch > leadership.partition_epoch or proposal.leader_epoch > state.leader_epoch:
            return ErrorCode.NOT_CONTROLLER  # it knows what we do not: somebody else decides by now
        if proposal.leader_epoch < state.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if state.leader != broker_id:
            return ErrorCode.INVALID_REQUEST
        isr = list(proposal.isr)
        if (isr, proposal.leader_recovery_state) == (state.isr, state.leader_recovery_state):
            return leadership
        if proposal.partition_epoch < leadership.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        if broker_id not in isr or not set(isr) <= set(self._context.replicas(key)):
            return ErrorCode.INVALID_REQUEST
        is_recovering = proposal.leader_recovery_state == LEADER_RECOVERING
        if is_recovering and (len(isr) > 1 or state.leader_recovery_state == LEADER_RECOVERED):
            return ErrorCode.INVALID_REQUEST
        joining = {one: epoch for one, epoch in proposal.isr.items() if one not in state.isr}
        ineligible = [one for one, epoch in joining.items() if not self._may_join(one, epoch, key)]
        if ineligible:
            logger.info("%s-%d: %s may not be in the ISR %s", *key, ineligible, isr)
            return ErrorCode.INELIGIBLE_REPLICA
        return state.replace(
            isr=isr,
            leader_recovery_state=proposal.leader_recovery_state,
            controller_epoch=self._context.epoch,
        )

    def _may_join(self, broker_id: int, broker_epoch: int, key: TopicPartition) -> bool:
        broker = self._context.brokers.get(broker_id)
        if broker is None or not self._context.is_eligible(broker_id, key):
            return False
        return broker_epoch in (UNKNOWN_BROKER_EPOCH, broker.epoch)
