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
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from functools import partial

from broker.config import BrokerConfig
from broker.controller.channel import ControllerChannel, OnAnswer
from broker.controller.context import ControllerContext, LiveBroker, TopicPartition
from broker.controller.partitions import PartitionLeaders
from broker.controller.requests import (
    LEADER_AND_ISR_VERSION,
    STOP_REPLICA_VERSION,
    UPDATE_METADATA_VERSION,
    RequestBuilder,
)
from broker.controller.topic_deletion import TopicDeletion
from client.network import Network
from protocol.message import Message
from registry.admin_znodes import DeleteTopicsZnode
from registry.broker_znodes import BrokerIdsZnode, BrokerZnode
from registry.controller_znodes import ControllerEpochZnode, ControllerZnode, FeatureZnode
from registry.errors import (
    BadVersionError,
    ConnectionLossError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    ZnodeFormatError,
)
from registry.interface import Create, Registry, Set, Watch
from registry.topic_znodes import TopicsZnode, TopicZnode

logger = logging.getLogger(__name__)

RETRY_BACKOFF_S = 0.2

Event = Callable[[], Awaitable[None]]


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
        self.context = ControllerContext()
        self._registry = registry
        self._network = network
        self._config = config
        self._now_ms = now_ms
        self._events: dict[str, Event] = {}
        self._wake = asyncio.Event()
        self._channels: dict[int, tuple[LiveBroker, ControllerChannel, asyncio.Task[None]]] = {}
        self._watches: dict[str, Watch] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._requests = RequestBuilder(broker_id, self.context, config.inter_broker_listener_name)
        self._leaders = PartitionLeaders(registry, self.context, config, topic_overrides)
        self._deletion = TopicDeletion(registry, self.context, config, self._delete_replicas)

    # -- the queue -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Stand for election, and be the controller whenever won, until cancelled."""
        watch = self._registry.watch_data(ControllerZnode.path(), partial(self._notice, "election", self._elect))
        self._notice("election", self._elect)
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                while True:
                    await self._handle_next()
        finally:
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
        try:
            await event()
        except SessionExpiredError:
            self._resign()
        except ConnectionLossError:
            await asyncio.sleep(RETRY_BACKOFF_S)
            self._notice(name, event)
        except BadVersionError as error:
            if error.path == ControllerEpochZnode.path():
                logger.info("another controller has taken over")
                self._resign()
                self._notice("election", self._elect)
            else:
                self._notice(name, event)  # the tree changed under our hands: look again
        except (NoNodeError, NodeExistsError) as error:
            logger.info("%s: the tree changed meanwhile (%s), looking again", name, error)
            self._notice(name, event)

    # -- election --------------------------------------------------------------------------------------------------

    async def _elect(self) -> None:
        registry = self._registry
        try:
            data, _ = await registry.get(ControllerZnode.path())
        except NoNodeError:
            pass
        else:
            holder = ControllerZnode.decode(data, ControllerZnode.path()).broker
            if holder != self.broker_id or not self.is_active:
                self._resign()
            return
        self._resign()
        epoch_path = ControllerEpochZnode.path()
        try:
            data, stat = await registry.get(epoch_path)
            epoch = ControllerEpochZnode.decode(data, epoch_path).epoch
            version = stat.version
        except NoNodeError:
            epoch, version = 0, 0
            await registry.create(epoch_path, ControllerEpochZnode(epoch=0).encode())
        znode = ControllerZnode(broker=self.broker_id, timestamp_ms=self._now_ms())
        try:
            await registry.multi(
                [
                    Create(ControllerZnode.path(), znode.encode(), ephemeral=True),
                    Set(epoch_path, ControllerEpochZnode(epoch=epoch + 1).encode(), version),
                ]
            )
        except (NodeExistsError, BadVersionError):
            self._notice("election", self._elect)
            return
        self.context.epoch = epoch + 1
        self.context.epoch_version = version + 1
        await self._take_office()

    async def _take_office(self) -> None:
        """Read the tree, tell everyone, and act on what was left undone."""
        logger.info("broker %d is the controller, epoch %d", self.broker_id, self.context.epoch)
        self.is_active = True
        with suppress(NodeExistsError):
            await self._registry.create(FeatureZnode.path(), FeatureZnode().encode())
        self._watch_children(BrokerIdsZnode.TEMPLATE, "brokers", self._brokers_changed)
        self._watch_children(TopicsZnode.TEMPLATE, "topics", self._topics_changed)
        self._watch_children(DeleteTopicsZnode.path(), "deletions", self._deletions_changed)
        await self._deletion.read()
        await self._read_topics()
        await self._leaders.read_states(self.context.all_partitions())
        await self._read_brokers()
        self._start_channels(set(self.context.brokers))
        self._update_metadata(self.context.brokers, self.context.all_partitions())
        new = await self._leaders.elect_new()
        await self._leaders.elect_for_lost()
        everything = list(self.context.all_partitions())
        for broker_id in self.context.brokers:
            self._leader_and_isr(broker_id, everything, new=new, full=True)
        self._update_metadata(self.context.brokers, everything)
        await self._deletion.resume()

    def _resign(self) -> None:
        if self.is_active:
            logger.info("broker %d is not the controller any more", self.broker_id)
        self.is_active = False
        for watch in self._watches.values():
            watch.cancel()
        self._watches.clear()
        for name in [name for name in self._events if name != "election"]:
            del self._events[name]
        for _, _, task in self._channels.values():
            task.cancel()
        self._channels.clear()
        self.context.clear()

    def _watch_children(self, path: str, name: str, event: Event) -> None:
        self._watches[path] = self._registry.watch_children(path, partial(self._notice, name, event))

    # -- brokers ---------------------------------------------------------------------------------------------------

    async def _read_brokers(self) -> None:
        registry = self._registry
        brokers: dict[int, LiveBroker] = {}
        for name in await registry.children(BrokerIdsZnode.TEMPLATE):
            path = f"{BrokerIdsZnode.TEMPLATE}/{name}"
            try:
                data, stat = await registry.get(path)
                broker_id = int(name)
                brokers[broker_id] = LiveBroker(broker_id, stat.czxid, BrokerZnode.decode(data, path))
            except NoNodeError:
                continue  # gone since
            except (ZnodeFormatError, ValueError) as error:
                logger.error("a broker's registration is left alone: %s", error)
        self.context.brokers = brokers

    async def _brokers_changed(self) -> None:
        before = self.context.brokers
        await self._read_brokers()
        after = self.context.brokers
        arrived = {broker_id for broker_id in after if before.get(broker_id) != after[broker_id]}
        gone = {broker_id for broker_id in before if before[broker_id] != after.get(broker_id)}
        if not arrived and not gone:
            return
        logger.info("brokers that came: %s; that went: %s", sorted(arrived), sorted(gone))
        for broker_id in gone:
            self._stop_channel(broker_id)
        self._start_channels(arrived)
        everything = list(self.context.all_partitions())
        self._update_metadata(after.keys() - arrived, ())
        self._update_metadata(arrived, everything)
        new = await self._leaders.elect_new()
        changed = await self._leaders.elect_for_lost()
        for broker_id in arrived:
            self._leader_and_isr(broker_id, everything, new=new, full=True)
        self._announce(new | changed, new=new, except_to=arrived)
        self._update_metadata(arrived, everything)
        await self._deletion.resume()

    def _start_channels(self, broker_ids: Iterable[int]) -> None:
        assert self._tasks is not None
        for broker_id in broker_ids:
            address = self._requests.address(broker_id)
            if address is None:
                logger.error("broker %d has no listener %s", broker_id, self._config.inter_broker_listener_name)
                continue
            channel = ControllerChannel(
                broker_id,
                *address,
                network=self._network,
                client_id=f"controller-{self.broker_id}",
                request_timeout_s=self._config.controller_socket_timeout_ms / 1000,
            )
            task = self._tasks.create_task(channel.run())
            self._channels[broker_id] = (self.context.brokers[broker_id], channel, task)

    def _stop_channel(self, broker_id: int) -> None:
        entry = self._channels.pop(broker_id, None)
        if entry is not None:
            entry[2].cancel()

    # -- topics ----------------------------------------------------------------------------------------------------

    async def _read_topics(self) -> None:
        """Take over all topic znodes, and watch each for more partitions."""
        names = set(await self._registry.children(TopicsZnode.TEMPLATE))
        for topic in set(self.context.topics) - names:
            self.context.forget(topic)
            watch = self._watches.pop(TopicZnode.path(topic), None)
            if watch is not None:
                watch.cancel()
        for topic in sorted(names - set(self.context.topics)):
            path = TopicZnode.path(topic)
            self._watches[path] = self._registry.watch_data(
                path, partial(self._notice, f"topic {topic}", partial(self._topic_changed, topic))
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
            return
        if znode.topic_id is None:
            znode = self._leaders.with_topic_id(znode)
            await self._registry.set(path, znode.encode(), stat.version)
        self.context.topics[topic] = znode

    async def _topics_changed(self) -> None:
        await self._read_topics()
        await self._partitions_added()
        await self._deletion.resume()

    async def _topic_changed(self, topic: str) -> None:
        if topic in self.context.topics:
            await self._read_topic(topic)
            await self._partitions_added()

    async def _partitions_added(self) -> None:
        await self._leaders.read_states(self.context.without_state())
        new = await self._leaders.elect_new()
        self._announce(new, new=new)

    async def _deletions_changed(self) -> None:
        await self._deletion.read()
        await self._deletion.resume()

    # -- telling brokers -------------------------------------------------------------------------------------------

    def _announce(self, keys: set[TopicPartition], *, new: set[TopicPartition], except_to: Iterable[int] = ()) -> None:
        """Tell replicas what they lead and follow, then everyone who leads."""
        if not keys:
            return
        ordered = sorted(keys)
        others = [broker_id for broker_id in self.context.brokers if broker_id not in set(except_to)]
        for broker_id in others:
            if any(broker_id in self.context.replicas(key) for key in ordered):
                self._leader_and_isr(broker_id, ordered, new=new)
        self._update_metadata(others, ordered)

    def _leader_and_isr(
        self, broker_id: int, keys: Iterable[TopicPartition], *, new: set[TopicPartition], full: bool = False
    ) -> None:
        entry = self._channels.get(broker_id)
        if entry is not None:
            request = self._requests.leader_and_isr(broker_id, keys, new=new, full=full)
            if request.topic_states or full:
                entry[1].send(request, LEADER_AND_ISR_VERSION)

    def _update_metadata(self, broker_ids: Iterable[int], keys: Iterable[TopicPartition]) -> None:
        keys = list(keys)
        for broker_id in broker_ids:
            entry = self._channels.get(broker_id)
            if entry is not None:
                entry[1].send(self._requests.update_metadata(broker_id, keys), UPDATE_METADATA_VERSION)

    def _delete_replicas(
        self, topic: str, keys_of: dict[int, list[TopicPartition]], on_answer: Callable[[int], OnAnswer]
    ) -> None:
        """Hide a topic from every broker, then have its replicas deleted."""
        self._update_metadata(self.context.brokers, self.context.partitions_of(topic))
        for broker_id, keys in keys_of.items():
            entry = self._channels.get(broker_id)
            if entry is not None:
                request = self._requests.delete_replicas(broker_id, keys)
                heard = partial(self._replicas_deleted, on_answer(broker_id))
                entry[1].send(request, STOP_REPLICA_VERSION, heard)

    def _replicas_deleted(self, heard: OnAnswer, answer: Message) -> None:
        heard(answer)
        self._notice("deletions", self._deletions_changed)
