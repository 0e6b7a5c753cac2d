"""The controller: one broker of the cluster decides who leads what, and tells the others.

It wins `/controller` and raises `/controller_epoch` in one transaction; every later write of its checks that epoch, so
a controller that has been replaced without noticing can change nothing. It works through one queue of events, one at a
time. Events are level-triggered: each says "look again at this part of the tree", so noticing the same thing twice is
harmless and missing none is enough.

What brokers and admin handlers want done they write into the tree (a topic's znode, `/admin/delete_topics/t`); the
controller notices and acts. That is also how tools of the ZooKeeper era are obeyed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from broker.config import BrokerConfig
from broker.controller.broker_channels import BrokerChannels
from broker.controller.context import ControllerContext, LiveBroker, TopicPartition
from broker.controller.log_dir_events import LogDirEvents
from broker.controller.partitions import PartitionLeaders
from broker.controller.topic_deletion import TopicDeletion
from client.network import Network
from registry.admin_znodes import DeleteTopicsZnode
from registry.broker_znodes import BrokerIdsZnode, BrokerZnode
from registry.controller_znodes import ControllerEpochZnode, ControllerZnode, FeatureZnode
from registry.errors import (
    BadVersionError,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RegistryFullError,
    SessionExpiredError,
    ZnodeFormatError,
)
from registry.interface import Create, Registry, Set, Stat, Watch
from registry.notification_znodes import LogDirEventNotificationsZnode
from registry.topic_znodes import TopicsZnode, TopicZnode

logger = logging.getLogger(__name__)

RETRY_BACKOFF_S = 0.1
FULL_BACKOFF_S = 1.0

Event = Callable[[], Awaitable[None]]

ELECTION = "election"
BROKERS = "brokers"
TOPICS = "topics"
DELETIONS = "deletions"
LOG_DIRS = "log directories"
ANSWERS = "answers"


class Controller:
    """One broker's candidate for controller; does nothing but wait while another one is."""

    def __init__(
        self,
        broker_id: int,
        *,
        registry: Registry,
        network: Network,
        config: BrokerConfig,
        topic_overrides: Callable[[str], Awaitable[dict[str, str]]],
        now_ms: Callable[[], int],
    ) -> None:
        self.broker_id = broker_id
        self.is_active = False
        """True from the election until somebody else is elected, or we cannot tell."""
        self.context = ControllerContext()
        self._registry = registry
        self._now_ms = now_ms
        self._in_office = False  # active, and everybody has been told everything
        self._highest_epoch = 0
        self._events: dict[str, Event] = {}
        self._wake = asyncio.Event()
        self._watches: list[Watch] = []
        self._topic_watches: dict[str, Watch] = {}
        self._newcomers: set[int] = set()  # live brokers that have not been told what they lead
        self._lost: set[TopicPartition] = set()  # partitions with a replica that is newly offline
        self._tasks: asyncio.TaskGroup | None = None
        self._channels = BrokerChannels(broker_id, self.context, network=network, config=config)
        self._leaders = PartitionLeaders(registry, self.context, config, topic_overrides)
        self._log_dirs = LogDirEvents(registry, self.context, partial(self._notice, ANSWERS, self._answered))
        self._channels.on_leader_and_isr = self._log_dirs.heard
        self._deletion = TopicDeletion(registry, self.context, config, self._channels, self._notice_deletions)

    def live_broker_epoch(self, broker_id: int) -> int | None:
        """The epoch of a broker's registration; None where it is not there."""
        broker = self.context.brokers.get(broker_id)
        return None if broker is None else broker.epoch

    # -- the queue -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Stand for election, and be the controller whenever won, until cancelled."""
        stand = partial(self._notice, ELECTION, self._elect)
        paths = [ControllerZnode.path(), ControllerEpochZnode.path(), BrokerZnode.path(self.broker_id)]
        watches: list[Watch] = [self._registry.watch_data(path, stand) for path in paths]
        watches.append(self._registry.listen(lambda state: stand()))  # whose session has expired has been replaced
        stand()
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                while True:
                    await self._handle_next()
        finally:
            for watch in watches:
                watch.cancel()
            self._resign()

    def _notice(self, name: str, event: Event) -> None:
        """Queue an event, unless it is queued already."""
        self._events.setdefault(name, event)
        self._wake.set()

    async def _handle_next(self) -> None:
        while not self._events:
            self._wake.clear()
            await self._wake.wait()
        name = next(iter(self._events))
        event = self._events.pop(name)
        if name != ELECTION and not self.is_active:
            return
        try:
            await event()
        except SessionExpiredError:
            self._resign()
        except ZnodeFormatError as error:
            logger.error("%s: left alone: %s", name, error)
        except (BadVersionError, NoNodeError, NodeExistsError, NotEmptyError, ConnectionLossError) as error:
            if error.path == ControllerEpochZnode.path():
                logger.info("another controller has taken over")
                self._resign()
                self._notice(ELECTION, self._elect)
                return
            logger.info("%s: the tree changed meanwhile, or the answer was lost (%s): looking again", name, error)
            await asyncio.sleep(RETRY_BACKOFF_S)
            self._notice(name, event)
        except RegistryFullError as error:
            logger.warning("%s: nothing can be decided (%s): looking again", name, error)
            await asyncio.sleep(FULL_BACKOFF_S)
            self._notice(name, event)

    # -- election --------------------------------------------------------------------------------------------------

    async def _elect(self) -> None:
        """Look who the controller is, and try to become it where nobody is.

        The epoch is read first: where `/controller` is ours afterwards, nobody can have raised it in between.
        """
        epoch, version = await self._read_epoch()
        holder = await self._holder()
        if holder is None:
            self._resign()
            if not await self._is_registered():
                return  # a session later it may be: a controller that is no live broker would have others lead its own
            znode = ControllerZnode(broker=self.broker_id, timestamp_ms=self._now_ms())
            try:
                await self._registry.multi(
                    [
                        Create(ControllerZnode.path(), znode.encode(), ephemeral=True),
                        Set(ControllerEpochZnode.path(), ControllerEpochZnode(epoch=epoch + 1).encode(), version),
                    ]
                )
            except (NodeExistsError, BadVersionError):
                self._notice(ELECTION, self._elect)
                return
            await self._take_office(epoch + 1, version + 1)
        elif holder.ephemeral_owner != self._registry.session_id:
            self._resign()
        elif not self._in_office:  # the answer to our election was lost, or taking office failed half way
            await self._take_office(epoch, version)

    async def _read_epoch(self) -> tuple[int, int]:
        """The controller epoch, and the version of its znode. Raises ZnodeFormatError."""
        path = ControllerEpochZnode.path()
        try:
            data, stat = await self._registry.get(path)
        except NoNodeError:
            await self._registry.create(path, ControllerEpochZnode(epoch=self._highest_epoch).encode())
            data, stat = await self._registry.get(path)
        epoch = ControllerEpochZnode.decode(data, path).epoch
        self._highest_epoch = max(self._highest_epoch, epoch)
        return epoch, stat.version

    async def _is_registered(self) -> bool:
        stat = await self._registry.exists(BrokerZnode.path(self.broker_id))
        return stat is not None and stat.ephemeral_owner == self._registry.session_id

    async def _holder(self) -> Stat | None:
        """The stat of `/controller`: whose it is, whatever it says."""
        path = ControllerZnode.path()
        try:
            data, stat = await self._registry.get(path)
        except NoNodeError:
            return None
        try:
            ControllerZnode.decode(data, path)
        except ZnodeFormatError as error:
            logger.error("there is a controller, but nobody can tell which: %s", error)
        return stat

    async def _take_office(self, epoch: int, epoch_version: int) -> None:
        """Read the tree, tell everyone, and act on what was left undone."""
        self._leave_office()
        self._highest_epoch = max(self._highest_epoch, epoch)
        logger.info("broker %d is the controller, epoch %d", self.broker_id, epoch)
        self.is_active = True
        context = self.context
        context.epoch, context.epoch_version = epoch, epoch_version
        try:
            with suppress(NodeExistsError):
                feature = Create(FeatureZnode.path(), FeatureZnode().encode())
                await self._registry.multi([context.epoch_check(), feature])
            self._watch_children(BrokerIdsZnode.TEMPLATE, BROKERS, self._brokers_changed)
            self._watch_children(TopicsZnode.TEMPLATE, TOPICS, self._topics_changed)
            self._watch_children(DeleteTopicsZnode.path(), DELETIONS, self._deletions_changed)
            self._watch_children(LogDirEventNotificationsZnode.path(), LOG_DIRS, self._log_dirs_failed)
            await self._log_dirs.remove(await self._log_dirs.read())  # everybody is told everything below, and answers
            await self._deletion.read()
            await self._read_topics()
            await self._leaders.read_states(context.all_partitions())
            self._welcome(await self._read_brokers())
            await self._leaders.elect_new()
            await self._leaders.elect_for_lost()
            self._tell()
            await self._deletion.resume()
        except BaseException:
            self._leave_office()
            raise
        self._in_office = True

    def _resign(self) -> None:
        if self.is_active:
            logger.info("broker %d is not the controller any more", self.broker_id)
        self._leave_office()

    def _leave_office(self) -> None:
        """Forget everything that was known: the next term begins by reading."""
        self.is_active = self._in_office = False
        for watch in [*self._watches, *self._topic_watches.values()]:
            watch.cancel()
        self._watches.clear()
        self._topic_watches.clear()
        for name in [name for name in self._events if name != ELECTION]:
            del self._events[name]
        self._channels.stop_all()
        self._newcomers.clear()
        self._lost.clear()
        self._leaders.clear()
        self._log_dirs.clear()
        self._deletion.clear()
        self.context.clear()

    def _watch_children(self, path: str, name: str, event: Event) -> None:
        self._watches.append(self._registry.watch_children(path, partial(self._notice, name, event)))

    # -- brokers ---------------------------------------------------------------------------------------------------

    async def _read_brokers(self) -> dict[int, LiveBroker]:
        registry = self._registry
        brokers: dict[int, LiveBroker] = {}
        for name in await registry.children(BrokerIdsZnode.TEMPLATE):
            path = f"{BrokerIdsZnode.TEMPLATE}/{name}"
            try:
                broker_id = int(name)
                data, stat = await registry.get(path)
                brokers[broker_id] = LiveBroker(broker_id, stat.czxid, BrokerZnode.decode(data, path))
            except NoNodeError:
                continue  # gone since
            except ZnodeFormatError as error:
                logger.error("a broker's registration is left alone: %s", error)
            except ValueError:
                logger.error("a broker's registration is left alone: %s: %r is no broker id", path, name)
        return brokers

    async def _brokers_changed(self) -> None:
        before = self.context.brokers
        after = await self._read_brokers()
        gone = {broker_id for broker_id in before if before[broker_id] != after.get(broker_id)}
        for broker_id in gone:
            self._channels.stop(broker_id)
            self._log_dirs.broker_gone(broker_id)
        self._newcomers -= gone
        if gone:  # also those that are back already: what they led had no leader in between
            self.context.brokers = {id_: broker for id_, broker in before.items() if id_ not in gone}
            await self._leaders.elect_for_lost()
        if gone or after.keys() != before.keys():
            self._welcome(after)
        await self._leaders.elect_new()
        await self._leaders.elect_for_lost()
        self._tell()
        await self._deletion.resume()

    def _welcome(self, brokers: dict[int, LiveBroker]) -> None:
        """Take over who is alive, and tell all of them; what newcomers lead they are told by `_tell`."""
        before = self.context.brokers
        arrived = brokers.keys() - before.keys()
        logger.info("live brokers: %s; newly come: %s", sorted(brokers), sorted(arrived))
        self.context.brokers = brokers
        self._newcomers |= arrived
        assert self._tasks is not None
        self._channels.start(arrived, self._tasks.create_task)
        self._channels.update_metadata(brokers.keys() - arrived, ())
        self._channels.update_metadata(arrived, self.context.all_partitions())

    # -- topics ----------------------------------------------------------------------------------------------------

    async def _read_topics(self) -> None:
        """Take over all topic znodes, and watch each for more partitions."""
        context = self.context
        names = set(await self._registry.children(TopicsZnode.TEMPLATE))
        for topic in context.topics.keys() - names:
            context.forget(topic)
        for topic in self._topic_watches.keys() - names:
            self._topic_watches.pop(topic).cancel()
        context.unreadable_topics &= names
        for topic in sorted(names - context.topics.keys() - context.unreadable_topics):
            if topic not in self._topic_watches:
                self._topic_watches[topic] = self._registry.watch_data(
                    TopicZnode.path(topic), partial(self._notice, f"topic {topic}", partial(self._topic_changed, topic))
                )
            await self._read_topic(topic)

    async def _read_topic(self, topic: str) -> None:
        path = TopicZnode.path(topic)
        try:
            data, stat = await self._registry.get(path)
            znode = TopicZnode.decode(data, path)
        except NoNodeError:
            return
        except ZnodeFormatError as error:
            logger.error("a topic is left alone: %s", error)
            self.context.unreadable_topics.add(topic)
            return
        if znode.topic_id is None:
            znode = self._leaders.with_topic_id(znode)
            await self._registry.multi([self.context.epoch_check(), Set(path, znode.encode(), stat.version)])
        self.context.unreadable_topics.discard(topic)
        self.context.take_topic(topic, znode)

    async def _topics_changed(self) -> None:
        await self._read_topics()
        await self._partitions_added()
        await self._deletion.resume()

    async def _topic_changed(self, topic: str) -> None:
        await self._read_topic(topic)
        await self._partitions_added()

    async def _partitions_added(self) -> None:
        await self._leaders.elect_new()
        self._tell()

    def _tell(self) -> None:
        """Tell newcomers everything, and the others what they have not been told yet."""
        changed, new = self._leaders.take_unannounced()
        newcomers, self._newcomers = self._newcomers, set()
        if newcomers:
            everything = list(self.context.all_partitions())
            for broker_id in newcomers:
                self._channels.leader_and_isr(broker_id, everything, new=new, full=True)
            self._channels.update_metadata(newcomers, everything)
        self._channels.announce(changed, new=new, except_to=newcomers)

    # -- log directories -------------------------------------------------------------------------------------------

    async def _log_dirs_failed(self) -> None:
        """Ask the brokers that say so what they have lost."""
        events = await self._log_dirs.read()
        for broker_id in sorted(set(events.values()) & self.context.brokers.keys()):
            logger.info("broker %d has a failed log directory", broker_id)
            self._channels.leader_and_isr(broker_id, self.context.partitions_on(broker_id), new=())
        await self._log_dirs.remove(events)

    async def _answered(self) -> None:
        """Brokers have said which of their replicas they have lost: have others lead, and tell who cannot."""
        self._lost |= self._log_dirs.take_answers()
        if not self._lost:
            return
        await self._leaders.elect_for_lost()
        self._tell()
        lost, self._lost = self._lost, set()
        self._channels.update_metadata(self.context.brokers, sorted(lost))

    # -- deletions -------------------------------------------------------------------------------------------------

    async def _deletions_changed(self) -> None:
        await self._deletion.read()
        await self._deletion.resume()

    def _notice_deletions(self, delay_s: float = 0.0) -> None:
        """Look at the deletions (again)."""
        notice = partial(self._notice, DELETIONS, self._deletions_changed)
        if delay_s:
            asyncio.get_running_loop().call_later(delay_s, notice)
        else:
            notice()
