"""Builds the controller's requests to brokers from the context."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from broker.cluster.metadata_cache import LEADER_DURING_DELETE
from broker.controller.context import ControllerContext, TopicPartition
from protocol.host_port import HostPort
from protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from protocol.sentinels import NO_EPOCH
from replication.controller_requests import EPOCH_OF_DELETION

SECURITY_PROTOCOL_IDS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


class RequestBuilder:
    """Builds the requests of one controller."""

    def __init__(self, controller_id: int, context: ControllerContext, listener_name: str) -> None:
        self._controller_id = controller_id
        self._context = context
        self._listener_name = listener_name

    def leader_and_isr(
        self,
        broker_id: int,
        keys: Iterable[TopicPartition],
        *,
        new: Collection[TopicPartition],
    ) -> LeaderAndIsrRequest:
        """Return the states of those of `keys` that have a replica on the broker.

        Topics that are being deleted are left out, and replicas that the broker was told to stop. A replica that a
        reassignment adds is new to its broker: its log may be created in any log directory.
        """
        context = self._context
        stopped = context.stopped.get(broker_id, ())
        topics: dict[str, LeaderAndIsrTopicState] = {}
        leaders: set[int] = set()
        for key in keys:
            topic, partition = key
            leadership = context.leaderships.get(key)
            if leadership is None or topic in context.deleting or key in stopped:
                continue
            if broker_id not in context.replicas(key):
                continue
            state = leadership.state
            adding = context.topics[topic].adding_replicas.get(partition, [])
            leaders.add(state.leader)
            topics.setdefault(
                topic, LeaderAndIsrTopicState(topic_name=topic, topic_id=context.topic_id(topic))
            ).partition_states.append(
                LeaderAndIsrPartitionState(
                    topic_name=topic,
                    partition_index=partition,
                    controller_epoch=state.controller_epoch,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=state.isr,
                    partition_epoch=leadership.partition_epoch,
                    replicas=context.replicas(key),
                    adding_replicas=adding,
                    removing_replicas=context.topics[topic].removing_replicas.get(partition, []),
                    is_new=key in new or broker_id in adding,
                    leader_recovery_state=state.leader_recovery_state,
                )
            )
        return LeaderAndIsrRequest(
            controller_id=self._controller_id,
            controller_epoch=context.epoch,
            broker_epoch=context.brokers[broker_id].epoch,
            topic_states=list(topics.values()),
            live_leaders=[
                LeaderAndIsrLiveLeader(broker_id=leader, host_name=host, port=port)
                for leader in sorted(leaders)
                if (address := self.address(leader)) is not None
                for host, port in [address]
            ],
        )

    def update_metadata(self, broker_id: int, keys: Iterable[TopicPartition]) -> UpdateMetadataRequest:
        """Return the live brokers and the states of `keys`."""
        context = self._context
        topics: dict[str, UpdateMetadataTopicState] = {}
        for key in keys:
            topic, partition = key
            leadership = context.leaderships.get(key)
            if leadership is None:
                continue
            state = leadership.state
            topics.setdefault(
                topic, UpdateMetadataTopicState(topic_name=topic, topic_id=context.topic_id(topic))
            ).partition_states.append(
                UpdateMetadataPartitionState(
                    topic_name=topic,
                    partition_index=partition,
                    controller_epoch=state.controller_epoch,
                    leader=LEADER_DURING_DELETE if topic in context.deleting else state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=state.isr,
                    zk_version=leadership.partition_epoch,
                    replicas=context.replicas(key),
                    offline_replicas=context.offline_replicas(key),
                )
            )
        return UpdateMetadataRequest(
            controller_id=self._controller_id,
            controller_epoch=context.epoch,
            broker_epoch=context.brokers[broker_id].epoch,
            topic_states=list(topics.values()),
            live_brokers=[self._live_broker(broker_id) for broker_id in sorted(context.brokers)],
        )

    def stop_replicas(self, broker_id: int, keys: Iterable[TopicPartition], *, delete: bool) -> StopReplicaRequest:
        """Return a request to stop replicas. delete: the topic is being deleted, or they are no longer replicas."""
        context = self._context
        topics: dict[str, StopReplicaTopicState] = {}
        for key in keys:
            topic, partition = key
            leadership = context.leaderships.get(key)
            if topic in context.deleting:
                leader_epoch = EPOCH_OF_DELETION
            else:
                leader_epoch = NO_EPOCH if leadership is None else leadership.state.leader_epoch
            topics.setdefault(topic, StopReplicaTopicState(topic_name=topic)).partition_states.append(
                StopReplicaPartitionState(partition_index=partition, leader_epoch=leader_epoch, delete_partition=delete)
            )
        return StopReplicaRequest(
            controller_id=self._controller_id,
            controller_epoch=context.epoch,
            broker_epoch=context.brokers[broker_id].epoch,
            topic_states=list(topics.values()),
        )

    def address(self, broker_id: int) -> HostPort | None:
        """Return the address of a broker's inter-broker listener; None if it is not alive or has no such listener."""
        broker = self._context.brokers.get(broker_id)
        if broker is None:
            return None
        for endpoint in broker.znode.endpoints:
            if endpoint.listener == self._listener_name:
                return HostPort(endpoint.host or "", endpoint.port)
        return None

    def _live_broker(self, broker_id: int) -> UpdateMetadataBroker:
        znode = self._context.brokers[broker_id].znode
        return UpdateMetadataBroker(
            id=broker_id,
            rack=znode.rack,
            endpoints=[
                UpdateMetadataEndpoint(
                    host=endpoint.host or "",
                    port=endpoint.port,
                    listener=endpoint.listener,
                    security_protocol=SECURITY_PROTOCOL_IDS.get(endpoint.security_protocol, 0),
                )
                for endpoint in znode.endpoints
            ],
        )
