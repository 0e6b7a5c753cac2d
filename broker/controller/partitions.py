"""Partition leaders: every change of a leader or an ISR that the controller makes by itself.

What Kafka keeps as state machines of partitions and replicas is here a question to the tree, asked again after every
event: who has no leader, whose leader is gone, who is in sync and gone. One change of a state is one write, as in
Kafka, so versions and leader epochs count alike. (One difference: where all replicas in sync are lost at once, Kafka
keeps the last of them as the ISR; all are kept here, since each of them has everything that was committed.)
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable

from broker.controller.context import ControllerContext, TopicPartition
from broker.controller.leader_election import (
    NO_LEADER,
    Elected,
    elect_after_loss,
    elect_for_new_partition,
    elect_for_reassignment,
    elect_for_shutdown,
    elect_preferred,
)
from broker.controller.partition_states import PartitionStates
from broker.settings.config import BrokerConfig
from registry.znodes.topics import LEADER_RECOVERING, PartitionStateZnode

logger = logging.getLogger(__name__)


class PartitionLeaders:
    """Decides who leads what, and writes it."""

    def __init__(
        self,
        states: PartitionStates,
        context: ControllerContext,
        config: BrokerConfig,
        topic_overrides: Callable[[str], Awaitable[dict[str, str]]],
        *,
        has_recovery_state: bool,
    ) -> None:
        self._has_recovery_state = has_recovery_state
        self._states = states
        self._context = context
        self._config = config
        self._topic_overrides = topic_overrides

    # -- new partitions and lost replicas ------------------------------------------------------------------------------

    async def elect_new(self) -> None:
        """Give a leader to every partition that never had one, where a replica is alive."""
        context = self._context
        states: dict[TopicPartition, PartitionStateZnode] = {}
        await self._states.read(context.without_state())
        for key in context.without_state():
            if key[0] in context.deleting or key in context.unreadable:
                continue
            elected = elect_for_new_partition(context.replicas(key), context.eligible_replicas(key))
            if elected is None:
                logger.warning("%s-%d has no live replica: it stays without a leader", *key)
                continue
            states[key] = PartitionStateZnode(
                leader=elected.leader, leader_epoch=0, isr=elected.isr, controller_epoch=context.epoch
            )
        await self._states.create(states)

    async def take_out_lost(self) -> None:
        """Write of everybody who is gone that he is neither leader nor in sync: what a new controller begins with.

        Elections follow as changes of their own. (Kafka's first step in office, too, so that versions count alike.)
        """
        states: dict[TopicPartition, PartitionStateZnode] = {}
        for key in self._context.with_losses():
            state = self._context.leaderships[key].state
            if any(not self._context.is_online(one, key) for one in state.isr):
                states[key] = self._next(
                    state,
                    leader=state.leader if self._context.is_online(state.leader, key) else NO_LEADER,
                    isr=[one for one in state.isr if self._context.is_online(one, key)] or state.isr,
                )
        await self._states.set(states)

    async def look_after_losses(self) -> None:
        """Elect where the leader is gone, or its log directory; take out of the ISR who is."""
        states: dict[TopicPartition, PartitionStateZnode] = {}
        await self._states.read(self._context.with_losses())
        for key in self._context.with_losses():
            state = self._context.leaderships[key].state
            after = await self._after_loss(key, state)
            if (after.leader, after.isr) != (state.leader, state.isr):
                states[key] = after
        await self._states.set(states)

    async def _after_loss(self, key: TopicPartition, state: PartitionStateZnode) -> PartitionStateZnode:
        context = self._context
        if context.is_online(state.leader, key):
            return self._next(state, isr=[one for one in state.isr if context.is_online(one, key)])
        live = context.eligible_replicas(key)
        elected = elect_after_loss(context.replicas(key), state.isr, live, unclean=False)
        if elected is None and live and await self._may_be_unclean(key[0]):
            elected = elect_after_loss(context.replicas(key), state.isr, live, unclean=True)
        if elected is None:
            return self._next(state, leader=NO_LEADER)
        return self._elected(key, state, elected)

    async def _may_be_unclean(self, topic: str) -> bool:
        overrides = await self._topic_overrides(topic)
        return self._config.log_config(overrides).unclean_leader_election_enable

    async def remove_from_isr(self, broker_id: int, keys: Iterable[TopicPartition]) -> None:
        """A broker's replicas are to be stopped: it is neither leader nor in sync any more.

        Who is alone in an ISR stays in it: it has the data.
        """
        states: dict[TopicPartition, PartitionStateZnode] = {}
        for key in keys:
            leadership = self._context.leaderships.get(key)
            if leadership is None or broker_id not in leadership.state.isr or key in self._context.unreadable:
                continue
            state = leadership.state
            states[key] = self._next(
                state,
                leader=NO_LEADER if state.leader == broker_id else state.leader,
                isr=[one for one in state.isr if one != broker_id] or state.isr,
            )
        await self._states.set(states)

    # -- elections that somebody asked for -----------------------------------------------------------------------------

    async def elect_preferred(self, keys: Collection[TopicPartition]) -> set[TopicPartition]:
        """Give partitions to their preferred leaders. Those where that was possible."""
        return await self._elect(
            keys,
            lambda key, state: elect_preferred(
                self._context.replicas(key), state.isr, self._context.eligible_replicas(key)
            ),
        )

    async def elect_unclean(self, keys: Collection[TopicPartition]) -> set[TopicPartition]:
        """Elect whoever is there: somebody asked for exactly that. Those where that was possible."""
        return await self._elect(
            keys,
            lambda key, state: elect_after_loss(
                self._context.replicas(key), state.isr, self._context.eligible_replicas(key), unclean=True
            ),
        )

    async def elect_for_shutdown(self, keys: Collection[TopicPartition]) -> set[TopicPartition]:
        """Move leaders away from brokers that are about to go. Those where that was possible."""
        context = self._context

        def elect(key: TopicPartition, state: PartitionStateZnode) -> Elected | None:
            online = [one for one in context.replicas(key) if context.is_online(one, key)]
            return elect_for_shutdown(context.replicas(key), state.isr, online, context.shutting_down)

        return await self._elect(keys, elect)

    async def elect_for_reassignment(self, key: TopicPartition, target: list[int]) -> bool:
        """Have one of the target replicas lead, one that is in sync. False where none can."""

        def elect(key: TopicPartition, state: PartitionStateZnode) -> Elected | None:
            return elect_for_reassignment(target, state.isr, self._context.eligible_replicas(key))

        return key in await self._elect([key], elect)

    async def _elect(
        self,
        keys: Collection[TopicPartition],
        elect: Callable[[TopicPartition, PartitionStateZnode], Elected | None],
    ) -> set[TopicPartition]:
        await self._states.read(keys)
        states: dict[TopicPartition, PartitionStateZnode] = {}
        for key in keys:
            leadership = self._context.leaderships.get(key)
            elected = None
            if leadership is not None and key not in self._context.unreadable:
                elected = elect(key, leadership.state)
                if elected is not None:
                    states[key] = self._elected(key, leadership.state, elected)
        await self._states.set(states)
        return set(states)

    async def renew_epoch(self, key: TopicPartition) -> None:
        """Raise the leader epoch and nothing else: the leader hears that its replicas have changed."""
        await self._states.read([key])
        leadership = self._context.leaderships.get(key)
        if leadership is not None and key not in self._context.unreadable:
            await self._states.set({key: self._next(leadership.state)})

    # -- small parts ---------------------------------------------------------------------------------------------------

    def _elected(self, key: TopicPartition, state: PartitionStateZnode, elected: Elected) -> PartitionStateZnode:
        after = self._next(state, leader=elected.leader, isr=elected.isr)
        if elected.is_clean:
            return after
        logger.warning("%s-%d: broker %d leads though it was not in sync", *key, elected.leader)
        return after.replace(leader_recovery_state=LEADER_RECOVERING) if self._has_recovery_state else after

    def _next(
        self, state: PartitionStateZnode, *, leader: int | None = None, isr: list[int] | None = None
    ) -> PartitionStateZnode:
        return state.replace(
            leader=state.leader if leader is None else leader,
            isr=state.isr if isr is None else isr,
            leader_epoch=state.leader_epoch + 1,
            controller_epoch=self._context.epoch,
        )
