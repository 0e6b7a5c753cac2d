"""ISR changes that leaders propose (KIP-497): which of them the controller accepts, which it refuses, and why.

A proposal names the leader epoch and the partition epoch (the version of the state znode) that it is based on. It also
names the broker epochs of its replicas (KIP-903), so that a replica cannot join if its broker has restarted since it
caught up. A change that is already made is answered as successful, so that a leader may ask twice.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple

from broker.controller.context import ControllerContext, Leadership, TopicPartition
from broker.controller.partition_states import PartitionStates
from broker.errors import RequestError
from protocol.error_codes import ErrorCode
from protocol.sentinels import UNKNOWN_BROKER_EPOCH
from registry.errors import BadVersionError
from registry.znodes.topics import LEADER_RECOVERED, LEADER_RECOVERING, PartitionStateZnode

logger = logging.getLogger(__name__)


class Proposal(NamedTuple):
    """The state that a leader proposes."""

    leader_epoch: int
    partition_epoch: int
    isr: dict[int, int]
    """Broker epoch by broker id, in the order of the ISR; -1 if the leader does not know it."""
    leader_recovery_state: int = LEADER_RECOVERED


Outcome = Leadership | ErrorCode
"""The current state, or the reason why it was not changed."""


class IsrProposals:
    """Decides on proposals."""

    def __init__(self, context: ControllerContext, states: PartitionStates) -> None:
        self._context = context
        self._states = states

    async def decide(
        self, broker_id: int, broker_epoch: int, proposals: Mapping[TopicPartition, Proposal]
    ) -> dict[TopicPartition, Outcome]:
        """Make the allowed changes. Raises RequestError (STALE_BROKER_EPOCH) if the leader has another registration."""
        broker = self._context.brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch:
            known = "none is registered" if broker is None else f"{broker.epoch} is registered"
            raise RequestError(
                ErrorCode.STALE_BROKER_EPOCH, f"broker {broker_id} sends broker epoch {broker_epoch}; {known}"
            )
        while True:
            outcomes = {key: self._judge(broker_id, key, proposal) for key, proposal in proposals.items()}
            accepted = {key: state for key, state in outcomes.items() if isinstance(state, PartitionStateZnode)}
            try:
                await self._states.set(accepted)
                break
            except BadVersionError as error:
                if not error.op_index:
                    raise  # op 0 is the check of the controller epoch
            # Another writer has changed one of the states, or the answer to our own write was lost. The state has been
            # read again, and the next turn judges the proposals by it.
        self._states.publish(key for key in proposals if key in self._context.leaderships)  # for out-of-date leaders
        written = {key: self._context.leaderships[key] for key in accepted}
        return {
            key: written[key] if isinstance(outcome, PartitionStateZnode) else outcome
            for key, outcome in outcomes.items()
        }

    def _judge(self, broker_id: int, key: TopicPartition, proposal: Proposal) -> PartitionStateZnode | Outcome:
        """Return the state to write, the current state if it is the proposed one, or a refusal."""
        leadership = self._context.leaderships.get(key)
        if leadership is None or key in self._context.unreadable or not self._context.partition_exists(key):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        state = leadership.state
        if proposal.partition_epoch > leadership.partition_epoch or proposal.leader_epoch > state.leader_epoch:
            return ErrorCode.NOT_CONTROLLER  # the leader knows a newer state: there is another controller by now
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
            # Usual while a broker stops: it still fetches, and leaders learn later that it is gone.
            staying = self._context.brokers.keys() - self._context.shutting_down
            level = logging.DEBUG if staying.isdisjoint(ineligible) else logging.INFO
            logger.log(level, "%s-%d: replicas %s may not join the ISR %s", *key, ineligible, isr)
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
