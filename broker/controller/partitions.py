"""Changes of leaders and ISRs that the controller makes by itself.

Kafka has state machines of partitions and replicas. Here, the controller asks the same questions after every event:
which partitions have no leader, a lost leader, or a lost in-sync replica? One change of a state is one write, as in
Kafka, so versions and leader epochs grow alike. (One difference: if all in-sync replicas are lost at once, Kafka keeps
the last one as the ISR. Here all stay in the ISR, since each of them has all committed records.)
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable

from broker.controller.context import ControllerContext, TopicPartition
from broker.controller.leader_election import (
    Elected,
    elect_after_loss,
    elect_for_new_partition,
    elect_for_reassignment,
    elect_for_shutdown,
    elect_preferred,
)
from broker.controller.partition_states import PartitionStates
from broker.settings.config import BrokerConfig
from protocol.sentinels import NO_LEADER
from registry.znodes.topics import LEADER_RECOVERING, PartitionStateZnode

logger = logging.getLogger(__name__)


class PartitionLeaders:
    """Elects leaders and writes the states."""

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
        """Elect a leader for each partition that never had one, if a replica is alive."""
        context = self._context
        states: dict[TopicPartition, PartitionStateZnode] = {}
        await self._states.read(context.without_state())
        for key in context.without_state():  # those that were not read
            if key[0] in context.deleting or key in context.unreadable:
                continue
            elected = elect_for_new_partition(context.replicas(key), context.eligible_replicas(key))
            if elected is None:
                logger.warning("%s-%d has no live replica, so it stays without a leader", *key)
                continue
            states[key] = PartitionStateZnode(
                leader=elected.leader, leader_epoch=0, isr=elected.isr, controller_epoch=context.epoch
            )
        await self._states.create(states)

    async def take_out_lost(self) -> None:
        """Remove lost replicas from leadership and ISRs: the first change of a new controller.

        The elections are separate changes. (As in Kafka, so that versions grow alike.)
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

    async def elect_after_losses(self) -> None:
        """Elect new leaders for partitions whose leader is offline; remove offline replicas from ISRs.

        The known states are not read again: a broker may have led thousands, and each write is refused if its state
        has changed. Only a leader changes a state, so none without a leader is overlooked.
        """
        states: dict[TopicPartition, PartitionStateZnode] = {}
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
        """Remove a broker, whose replicas will be stopped, from leadership and ISRs.

        The only replica of an ISR stays in it: it has the data.
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

    # -- elections on request ------------------------------------------------------------------------------------------

    async def elect_preferred(self, keys: Collection[TopicPartition]) -> set[TopicPartition]:
        """Elect preferred leaders. Return the partitions where that was possible."""
        return await self._elect(
            keys,
            lambda key, state: elect_preferred(
                self._context.replicas(key), state.isr, self._context.eligible_replicas(key)
            ),
        )

    async def elect_unclean(self, keys: Collection[TopicPartition]) -> set[TopicPartition]:
        """Elect a live replica if no in-sync replica is live. Return the partitions where that was possible."""
        return await self._elect(
            keys,
            lambda key, state: elect_after_loss(
                self._context.replicas(key), state.isr, self._context.eligible_replicas(key), unclean=True
            ),
        )

    async def elect_for_shutdown(self, keys: Collection[TopicPartition]) -> set[TopicPartition]:
        """Move leaders off brokers that are shutting down. Return the partitions where that was possible."""
        context = self._context

        def elect(key: TopicPartition, state: PartitionStateZnode) -> Elected | None:
            online = [one for one in context.replicas(key) if context.is_online(one, key)]
            return elect_for_shutdown(context.replicas(key), state.isr, online, context.shutting_down)

        return await self._elect(keys, elect)

    async def elect_for_reassignment(self, key: TopicPartition, target: list[int]) -> bool:
        """Elect a target replica that is in sync. Return False if none can lead."""

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
        """Raise only the leader epoch: the leader then receives the changed replicas."""
        await self._states.read([key])
        leadership = self._context.leaderships.get(key)
        if leadership is not None and key not in self._context.unreadable:
            await self._states.set({key: self._next(leadership.state)})

    # -- helpers -------------------------------------------------------------------------------------------------------

    def _elected(self, key: TopicPartition, state: PartitionStateZnode, elected: Elected) -> PartitionStateZnode:
        after = self._next(state, leader=elected.leader, isr=elected.isr)
        if elected.is_clean:
            return after
        logger.warning("%s-%d: broker %d leads although it was not in sync", *key, elected.leader)
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
