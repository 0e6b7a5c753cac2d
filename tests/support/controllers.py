"""Controllers on one registry in memory, and brokers that only record the requests of the controller."""

from __future__ import annotations

import asyncio
import contextlib
import random

from broker.controller.controller import Controller
from broker.settings.config import BrokerConfig
from client.wire.backoff import Backoff
from protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from protocol.messages.stop_replica import StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse
from protocol.messages.update_metadata import UpdateMetadataRequest
from registry.embedded.store import EmbeddedStore
from registry.errors import ConnectionLossError
from registry.znodes.admin import DeleteTopicZnode
from registry.znodes.brokers import BrokerZnode, Endpoint
from registry.znodes.configs import TopicConfigZnode
from registry.znodes.topics import PartitionStateZnode, TopicZnode
from registry.znodes.tree import ensure_persistent_paths
from support.broker import settings
from support.polling import until

NOW_MS = 1_700_000_000_000
STORAGE_ERROR = 56
ID = bytes(range(1, 17))


class LossyRegistry:
    """A registry that applies the next transactions but loses their answers."""

    def __init__(self, registry):
        self._registry = registry
        self.losses = 0

    def __getattr__(self, name):
        return getattr(self._registry, name)

    async def multi(self, ops):
        results = await self._registry.multi(ops)
        if self.losses:
            self.losses -= 1
            raise ConnectionLossError("the answer was lost")
        return results


class NotingChannel:
    """The requests that a controller has sent to a broker. StopReplica is answered at once if `obeys`."""

    def __init__(self, cluster, broker_id):
        self.cluster = cluster
        self.broker_id = broker_id

    def send(self, request, version, on_answer=None):
        request.encode(version)  # it can be
        self.cluster.said.append((self.broker_id, request))
        if isinstance(request, LeaderAndIsrRequest):
            asyncio.get_running_loop().call_soon(on_answer, self._leader_and_isr_answer(request))
        elif on_answer is not None:
            self.cluster.unanswered.append((self.broker_id, request, on_answer))
            if self.cluster.obeys:
                asyncio.get_running_loop().call_soon(self.cluster.answer, 0)

    def _leader_and_isr_answer(self, request):
        """What a broker answers that has lost `cluster.lost`."""
        lost = self.cluster.lost.get(self.broker_id, ())
        return LeaderAndIsrResponse(
            topics=[
                LeaderAndIsrTopicError(
                    topic_id=topic.topic_id,
                    partition_errors=[
                        LeaderAndIsrPartitionError(
                            partition_index=state.partition_index,
                            error_code=STORAGE_ERROR if (topic.topic_name, state.partition_index) in lost else 0,
                        )
                        for state in topic.partition_states
                    ],
                )
                for topic in request.topic_states
            ]
        )

    async def run(self):
        await asyncio.Event().wait()


def _offline(request, topic, partition):
    for one in request.topic_states:
        for state in one.partition_states:
            if (one.topic_name, state.partition_index) == (topic, partition):
                yield list(state.offline_replicas)


class Member:
    """One broker: a session, perhaps a registration, and a controller that runs."""

    def __init__(self, registry, controller, running):
        self.registry = registry
        self.controller = controller
        self.running = running


class Cluster:
    """Members by broker id; `admin` is a separate session, for tools."""

    def __init__(self, tmp_path, **overrides):
        self.said = []
        self.unanswered = []
        self.lost = {}
        self.obeys = True
        self.members = {}
        self.unclean_topics = set()
        self._tmp_path = tmp_path
        self._overrides = overrides

    async def __aenter__(self):
        self.store = await EmbeddedStore.open(now_ms=lambda: NOW_MS)
        self.admin = self.store.session()
        await self.admin.start()
        await ensure_persistent_paths(self.admin)
        return self

    async def __aexit__(self, *_):
        for broker_id in list(self.members):
            await self.leave(broker_id)
        await self.admin.close()
        await self.store.close()

    # -- members ---------------------------------------------------------------------------------------------------

    async def join(self, broker_id, *, runs=True):
        """A broker registers; with `runs`, its controller stands for election."""
        registry = LossyRegistry(self.store.session())
        await registry.start()
        endpoint = Endpoint("PLAINTEXT", "PLAINTEXT", f"host{broker_id}", 9092)
        znode = BrokerZnode(endpoints=(endpoint,), timestamp_ms=NOW_MS)
        await registry.create(BrokerZnode.path(broker_id), znode.encode(), ephemeral=True)

        async def overrides(topic):
            return {"unclean.leader.election.enable": "true"} if topic in self.unclean_topics else {}

        config = BrokerConfig.load(
            None, settings(self._tmp_path / str(broker_id), broker_id=str(broker_id), **self._overrides)
        )
        controller = Controller(
            broker_id,
            registry=registry,
            new_channel=lambda broker_id, address: NotingChannel(self, broker_id),
            config=config,
            topic_overrides=overrides,
            now_ms=lambda: NOW_MS,
            backoff=Backoff(10, 100, random.Random(1)),
            deletion_backoff=Backoff(1, 10, random.Random(1)),
        )
        running = asyncio.create_task(controller.run()) if runs else None
        member = self.members[broker_id] = Member(registry, controller, running)
        return member

    def stand(self, broker_id):
        """Start the controller of a broker that was started without one."""
        member = self.members[broker_id]
        assert member.running is None
        member.running = asyncio.create_task(member.controller.run())

    async def leave(self, broker_id):
        """The broker stops: its controller, then its session."""
        member = self.members.pop(broker_id)
        if member.running is not None:
            member.running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await member.running
        await member.registry.close()

    @property
    def active(self):
        """The ids of the brokers that consider themselves the controller."""
        return [broker_id for broker_id, member in self.members.items() if member.controller.is_active]

    async def elected(self):
        """The one controller, in office."""
        await until(
            lambda: [one for one in self.members.values() if one.controller._in_office], "there is a controller"
        )
        [broker_id] = self.active
        return self.members[broker_id].controller

    async def settled(self):
        """The one controller, after its context matches what it has written."""

        async def nothing():
            pass

        controller = await self.elected()
        await controller.decide("nothing", nothing)
        return controller

    # -- tools -----------------------------------------------------------------------------------------------------

    async def create(self, topic, *replicas, topic_id=ID, version=3):
        """Write a topic's znode by hand."""
        znode = TopicZnode(partitions=dict(enumerate(replicas)), topic_id=topic_id, version=version)
        await self.admin.create(TopicZnode.path(topic), znode.encode())

    async def grow(self, topic, *replicas):
        znode = await self.topic(topic)
        more = dict(enumerate(replicas, len(znode.partitions)))
        await self.admin.set(TopicZnode.path(topic), znode.replace(partitions={**znode.partitions, **more}).encode())

    async def delete(self, topic):
        await self.admin.create(DeleteTopicZnode.path(topic))

    def node(self, path):
        """A znode's bytes; None if there is none."""
        node = self.store.tree.get(path)
        return None if node is None else node.data

    async def topic(self, topic):
        path = TopicZnode.path(topic)
        return TopicZnode.decode((await self.admin.get(path))[0], path)

    def state(self, topic, partition=0):
        """A partition's state; None if it has none."""
        path = PartitionStateZnode.path(topic, partition)
        data = self.node(path)
        return None if data is None else PartitionStateZnode.decode(data, path)

    def leader(self, topic, partition=0):
        """(leader, leader epoch), None where it has no state."""
        state = self.state(topic, partition)
        return None if state is None else (state.leader, state.leader_epoch)

    def traces(self, topic):
        """The existing znodes of a topic."""
        paths = [TopicZnode.path(topic), TopicConfigZnode.path(topic), DeleteTopicZnode.path(topic)]
        return [path for path in paths if self.store.tree.get(path) is not None]

    # -- what brokers were told ------------------------------------------------------------------------------------

    def answer(self, code):
        """Answer the oldest StopReplica."""
        _, request, on_answer = self.unanswered.pop(0)
        errors = [
            StopReplicaPartitionError(topic_name=topic.topic_name, partition_index=one.partition_index, error_code=code)
            for topic in request.topic_states
            for one in topic.partition_states
        ]
        on_answer(StopReplicaResponse(partition_errors=errors))

    def told(self, broker_id, kind):
        """The requests of a type that a broker has received."""
        return [request for one, request in self.said if one == broker_id and isinstance(request, kind)]

    def leads(self, broker_id, topic, partition=0):
        """The last (leader, leader epoch, new) of a partition that a broker has got by LeaderAndIsr."""
        last = None
        for request in self.told(broker_id, LeaderAndIsrRequest):
            for one in request.topic_states:
                for state in one.partition_states:
                    if (one.topic_name, state.partition_index) == (topic, partition):
                        last = (state.leader, state.leader_epoch, state.is_new)
        return last

    def knows(self, broker_id, topic, partition=0):
        """The last leader of a partition that a broker has got by UpdateMetadata."""
        last = None
        for request in self.told(broker_id, UpdateMetadataRequest):
            for one in request.topic_states:
                for state in one.partition_states:
                    if (one.topic_name, state.partition_index) == (topic, partition):
                        last = state.leader
        return last

    def offline(self, broker_id, topic, partition=0):
        """The last offline replicas of a partition that a broker has got by UpdateMetadata."""
        told = [one for r in self.told(broker_id, UpdateMetadataRequest) for one in _offline(r, topic, partition)]
        return told[-1] if told else None

    def live(self, broker_id):
        """The live brokers of the last UpdateMetadata that a broker has received."""
        return [broker.id for broker in self.told(broker_id, UpdateMetadataRequest)[-1].live_brokers]

    def stopped(self, broker_id):
        """The topics that a broker was requested to delete."""
        return [
            topic.topic_name for request in self.told(broker_id, StopReplicaRequest) for topic in request.topic_states
        ]
