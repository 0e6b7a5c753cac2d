"""The controller: one elected broker of the cluster decides which broker leads each partition, and informs the others.

The election is in `candidacy`. Every later write checks `/controller_epoch`: a controller that has been replaced
without noticing can change nothing. The controller handles one queue of events, one at a time. Events are
level-triggered: each says "look again at this part of the tree". Noticing the same change twice is harmless; it is
enough that no change is missed. Requests that the controller decides (`decide`) take their turn in the same queue.

Brokers and admin handlers write what they want into the tree (a topic's znode, `/admin/delete_topics/t`) or send a
request; the controller carries it out. Tools of the ZooKeeper era work in the same way.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TypeVar

from broker.controller.alter_partition import IsrProposals, Outcome, Proposal
from broker.controller.broker_channels import BrokerChannels
from broker.controller.candidacy import Candidacy
from broker.controller.channel import NewChannel
from broker.controller.context import ControllerContext, LiveBroker, TopicPartition
from broker.controller.elections import Elections
from broker.controller.event_queue import ELECTION, EventQueue
from broker.controller.features import set_up_features
from broker.controller.isr_notifications import IsrNotifications
from broker.controller.live_brokers import LiveBrokers
from broker.controller.log_dir_events import LogDirEvents
from broker.controller.partition_states import PartitionStates
from broker.controller.partitions import PartitionLeaders
from broker.controller.reassignments import Reassignments
from broker.controller.shutdowns import Shutdowns
from broker.controller.state_propagation import StatePropagation
from broker.controller.stopped_replicas import StoppedReplicas
from broker.controller.topic_assignments import TopicAssignments
from broker.controller.topic_deletion import TopicDeletion
from broker.settings.config import BrokerConfig
from client.wire.backoff import Backoff
from registry.errors import BadVersionError, NodeExistsError
from registry.interface import Registry, Watch
from registry.znodes.admin import DeleteTopicsZnode, PreferredReplicaElectionZnode, ReassignPartitionsZnode
from registry.znodes.brokers import BrokerIdsZnode
from registry.znodes.notifications import IsrChangeNotificationsZnode, LogDirEventNotificationsZnode
from registry.znodes.topics import TopicsZnode
from replication.inter_broker_protocol import InterBrokerProtocol

logger = logging.getLogger(__name__)

FIRST_REBALANCE_S = 5.0
"""Delay of a new controller's first rebalance; then leader.imbalance.check.interval.seconds applies."""

T = TypeVar("T")

BROKERS = "brokers"
TOPICS = "topics"
DELETIONS = "deletions"
LOG_DIRS = "log directories"
ANSWERS = "answers"
REASSIGNMENTS = "reassignments"
PREFERRED = "preferred leaders"
REBALANCE = "rebalance"
ISR_CHANGES = "ISR changes"
LOSSES = "losses"


class Controller:
    """One broker's candidate for controller. It only waits while another broker is the controller."""

    def __init__(
        self,
        broker_id: int,
        *,
        registry: Registry,
        new_channel: NewChannel,
        config: BrokerConfig,
        topic_overrides: Callable[[str], Awaitable[dict[str, str]]],
        now_ms: Callable[[], int],
        backoff: Backoff,
        deletion_backoff: Backoff,
        rng: random.Random | None = None,
    ) -> None:
        """backoff: of failed events. deletion_backoff: of brokers that could not delete their replicas."""
        self.broker_id = broker_id
        self.is_active = False
        """True from the election until another broker is elected, or this broker cannot know whether one is."""
        self.context = context = ControllerContext()
        self._registry = registry
        self._config = config
        self._in_office = False  # active, and all brokers have been informed
        self._queue = EventQueue(lambda: self.is_active, self._was_replaced, self._resign, backoff)
        self._watches: list[Watch] = []
        self._tasks = asyncio.TaskGroup()  # entered by `run`
        self._candidacy = Candidacy(broker_id, registry, now_ms)
        self._versions = versions = InterBrokerProtocol(config.inter_broker_protocol_version)
        self._log_dirs = LogDirEvents(registry, context, partial(self._queue.notice, ANSWERS, self._answered))
        self._channels = BrokerChannels(
            broker_id,
            context,
            versions,
            listener_name=config.controller_listener_name,
            new_channel=new_channel,
            on_leader_and_isr=self._log_dirs.answered,
        )
        self._states = states = PartitionStates(registry, context)
        self._leaders = leaders = PartitionLeaders(
            states, context, config, topic_overrides, has_recovery_state=versions.has_recovery_state
        )
        self._stopped = StoppedReplicas(context)
        self._propagation = StatePropagation(context, self._channels, states, self._stopped)
        self._propagate = self._propagation.propagate
        self._brokers = LiveBrokers(registry, partial(self._queue.notice, BROKERS, self._brokers_changed))
        self._topics = TopicAssignments(
            registry,
            context,
            has_topic_ids=versions.has_topic_ids,
            rng=rng or random.Random(),
            changed=self._notice_topic,
        )
        self._deletion = TopicDeletion(
            registry, context, config, self._channels, leaders, self._notice_deletions, deletion_backoff
        )
        self._reassignments = Reassignments(registry, context, states, leaders, self._topics, self._stopped)
        self._elections = Elections(registry, context, config, leaders)
        self._shutdowns = Shutdowns(context, leaders, self._stopped)
        self._proposals = IsrProposals(context, states)
        self._isr_notifications = IsrNotifications(registry, context, states)

    def live_broker_epoch(self, broker_id: int) -> int | None:
        """Return the epoch of a broker's registration; None if it is not registered."""
        broker = self.context.brokers.get(broker_id)
        return None if broker is None else broker.epoch

    # -- the queue -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Take part in elections, and be the controller after each one that is won, until cancelled. Call it once."""
        stand = partial(self._queue.notice, ELECTION, self._elect)
        watches: list[Watch] = [self._registry.watch_data(path, stand) for path in self._candidacy.watched_paths()]
        watches.append(self._registry.listen(lambda state: stand()))  # an expired session means: another may be elected
        stand()
        try:
            async with self._tasks:
                while True:
                    await self._queue.handle_next()
        finally:
            for watch in watches:
                watch.cancel()
            self._resign()

    async def decide(self, what: str, work: Callable[[], Awaitable[T]]) -> T:
        """Call `work` in its turn, and inform the brokers of the result (see EventQueue.ask)."""

        async def told() -> T:
            result = await work()
            self._propagate()
            return result

        return await self._queue.ask(what, told)

    # -- requests ----------------------------------------------------------------------------------------------------

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, proposals: Callable[[], Mapping[TopicPartition, Proposal]]
    ) -> dict[TopicPartition, Outcome]:
        """Decide on ISR changes that a leader proposes. Raises RequestError, NotControllerError.

        proposals: called in its turn, because a new controller knows no topics and topic ids before it has read them.
        """
        outcomes = await self.decide(
            "AlterPartition", lambda: self._proposals.decide(broker_id, broker_epoch, proposals())
        )
        if any(self.context.partition_exists(key) and self.context.is_reassigning(key) for key in outcomes):
            self._queue.notice(REASSIGNMENTS, self._reassign)
        return outcomes

    async def relieve(self, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        """Move leaders off a broker that shuts down: see `Shutdowns.relieve`. Also raises NotControllerError."""
        return await self.decide("ControlledShutdown", partial(self._shutdowns.relieve, broker_id, broker_epoch))

    @property
    def reassignments(self) -> Reassignments:
        """Call its methods within `decide`."""
        return self._reassignments

    @property
    def elections(self) -> Elections:
        """Call its methods within `decide`."""
        return self._elections

    def leaders_may_be_found(self) -> None:
        """Elect again: a setting has changed that may allow it (unclean.leader.election.enable)."""
        if self.is_active:
            self._queue.notice(LOSSES, self._elect_after_losses)

    # -- election --------------------------------------------------------------------------------------------------

    async def _elect(self) -> None:
        """Find out which broker is the controller; try to become it if there is none."""
        epoch, version = await self._candidacy.epoch()
        holder = await self._candidacy.holder()
        if holder is None:
            self._resign()
            if not await self._candidacy.may_stand():
                return
            try:
                await self._candidacy.win(epoch, version)
            except (NodeExistsError, BadVersionError):
                self._queue.notice(ELECTION, self._elect)
                return
            await self._take_office(epoch + 1, version + 1)
        elif holder.ephemeral_owner != self._registry.session_id:
            self._resign()
        elif not self._in_office:  # the answer to the election was lost, or taking office failed half way
            await self._take_office(epoch, version)

    async def _take_office(self, epoch: int, epoch_version: int) -> None:
        """Read the tree, inform all brokers, and complete unfinished work."""
        self._leave_office()
        logger.info("broker %d is the controller, epoch %d", self.broker_id, epoch)
        self.is_active = True
        context = self.context
        context.epoch, context.epoch_version = epoch, epoch_version
        try:
            await set_up_features(self._registry, context, self._versions)
            self._watch_tree()
            await self._log_dirs.remove(await self._log_dirs.read())  # below, brokers are sent all states and answer
            await self._isr_notifications.take()  # all states are read below
            await self._deletion.read()
            await self._topics.read_all()
            written = await self._states.read(context.all_partitions())
            brokers = await self._brokers.read()
            restarted = context.restarted(brokers, written)
            self._adopt_brokers({id_: broker for id_, broker in brokers.items() if id_ not in restarted})
            await self._leaders.take_out_lost()
            if restarted:
                logger.info("restarted while there was no controller: %s", sorted(restarted))
                await self._leaders.elect_after_losses()
                self._adopt_brokers(brokers)
            await self._leaders.elect_new()
            await self._leaders.elect_after_losses()
            self._propagate()
            await self._reassign()
            await self._deletion.resume()
            await self._elections.read_requested()
            self._propagate()
        except BaseException:
            self._leave_office()
            raise
        self._in_office = True
        if self._config.auto_leader_rebalance_enable:
            self._queue.notice_later(FIRST_REBALANCE_S, REBALANCE, self._rebalance)

    def _watch_tree(self) -> None:
        registry = self._registry
        for path, name, event in (
            (BrokerIdsZnode.TEMPLATE, BROKERS, self._brokers_changed),
            (TopicsZnode.TEMPLATE, TOPICS, self._topics_changed),
            (DeleteTopicsZnode.path(), DELETIONS, self._deletions_changed),
            (LogDirEventNotificationsZnode.path(), LOG_DIRS, self._log_dirs_failed),
            (IsrChangeNotificationsZnode.path(), ISR_CHANGES, self._isrs_changed),
        ):
            self._watches.append(registry.watch_children(path, partial(self._queue.notice, name, event)))
        for path, name, event in (
            (ReassignPartitionsZnode.path(), REASSIGNMENTS, self._reassign),
            (PreferredReplicaElectionZnode.path(), PREFERRED, self._elect_preferred),
        ):
            self._watches.append(registry.watch_data(path, partial(self._queue.notice, name, event)))

    def _was_replaced(self) -> None:
        self._resign()
        self._queue.notice(ELECTION, self._elect)

    def _resign(self) -> None:
        if self.is_active:
            logger.info("broker %d is no longer the controller", self.broker_id)
        self._leave_office()

    def _leave_office(self) -> None:
        """Forget everything: the next term reads it again."""
        self.is_active = self._in_office = False
        for watch in self._watches:
            watch.cancel()
        self._watches.clear()
        self._queue.drop()
        self._propagation.clear()
        for part in (self._brokers, self._topics, self._states, self._stopped, self._log_dirs, self._deletion):
            part.clear()
        self.context.clear()

    # -- brokers ---------------------------------------------------------------------------------------------------

    async def _brokers_changed(self) -> None:
        context = self.context
        before = context.brokers
        after = await self._brokers.read()
        removed = {id_ for id_, broker in before.items() if id_ not in after or after[id_].epoch != broker.epoch}
        self._propagation.brokers_removed(removed)
        for broker_id in removed:
            context.broker_removed(broker_id)
        context.brokers = {id_: broker for id_, broker in before.items() if id_ not in removed}
        # Those that have registered again at once are not live yet: their partitions had no leader in between. This may
        # also complete what an earlier attempt has begun.
        await self._leaders.elect_after_losses()
        added = after.keys() - context.brokers.keys()
        if removed or added or after != before:
            self._adopt_brokers(after)
        await self._leaders.elect_new()
        await self._leaders.elect_after_losses()
        await self._reassignments.brokers_registered(added)
        await self._reassignments.resume()
        self._propagate()
        await self._deletion.resume()

    def _adopt_brokers(self, brokers: dict[int, LiveBroker]) -> None:
        self._propagation.brokers_changed(brokers, self._tasks.create_task)

    async def _elect_after_losses(self) -> None:
        await self._leaders.elect_after_losses()
        await self._reassignments.resume()
        self._propagate()

    # -- topics ----------------------------------------------------------------------------------------------------

    def _notice_topic(self, topic: str) -> None:
        self._queue.notice(f"topic {topic}", partial(self._topic_changed, topic))

    async def _topics_changed(self) -> None:
        await self._topics.read_all()
        await self._partitions_added()
        await self._deletion.resume()

    async def _topic_changed(self, topic: str) -> None:
        await self._topics.read(topic)
        await self._partitions_added()

    async def _partitions_added(self) -> None:
        await self._leaders.elect_new()
        self._propagate()

    # -- moves and elections -----------------------------------------------------------------------------------------

    async def _reassign(self) -> None:
        await self._reassignments.read_requested()
        await self._reassignments.resume()
        self._propagate()

    async def _elect_preferred(self) -> None:
        await self._elections.read_requested()
        self._propagate()

    async def _rebalance(self) -> None:
        self._queue.notice_later(self._config.leader_imbalance_check_interval_seconds, REBALANCE, self._rebalance)
        await self._elections.rebalance()
        self._propagate()

    async def _isrs_changed(self) -> None:
        await self._isr_notifications.take()
        await self._reassignments.resume()
        self._propagate()

    # -- log directories -------------------------------------------------------------------------------------------

    async def _log_dirs_failed(self) -> None:
        """Ask the brokers that have reported a failed log directory which replicas are lost."""
        events = await self._log_dirs.read()
        for broker_id in sorted(set(events.values()) & self.context.brokers.keys()):
            logger.info("broker %d has a failed or full log directory", broker_id)
            self._channels.leader_and_isr(broker_id, self.context.partitions_on(broker_id), new=())
        await self._log_dirs.remove(events)

    async def _answered(self) -> None:
        """Handle answers of brokers that have lost replicas, or have them back: publish that and elect new leaders."""
        lost, back = self._log_dirs.take_answers()
        if lost or back:
            self._states.publish(lost | back)
            await self._elect_after_losses()

    # -- deletions -------------------------------------------------------------------------------------------------

    async def _deletions_changed(self) -> None:
        await self._deletion.read()
        await self._deletion.resume()

    def _notice_deletions(self, delay_s: float = 0.0) -> None:
        """Check the deletions, after a delay or at once."""
        if delay_s:
            self._queue.notice_later(delay_s, DELETIONS, self._deletions_changed)
        else:
            self._queue.notice(DELETIONS, self._deletions_changed)
