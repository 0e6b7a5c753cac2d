"""A `FakeBroker` that also coordinates groups and transactions: it records requests and accepts them."""

from protocol.api_keys import ApiKey
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from protocol.messages.end_txn import EndTxnResponse
from protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from protocol.messages.init_producer_id import InitProducerIdResponse
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from support.fake_broker import SERVED, FakeBroker


class FakeCoordinator(FakeBroker):
    """`coordinator` is the node id that FindCoordinator names; `ends`: True for each commit, False for an abort."""

    served = (
        *SERVED,
        ApiKey.FIND_COORDINATOR,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    )

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.coordinator = self.node_id
        self.ends = []

    def _find_coordinator(self, request, version, error):
        keys = request.coordinator_keys if version >= 4 else [request.key]
        found = [
            Coordinator(key=key, node_id=self.coordinator, host="127.0.0.1", port=self.port, error_code=error)
            for key in keys
        ]
        if version >= 4:
            return FindCoordinatorResponse(coordinators=found)
        return FindCoordinatorResponse(error_code=error, node_id=self.coordinator, host="127.0.0.1", port=self.port)

    def _init_producer_id(self, request, version, error):
        if request.producer_id >= 0:
            return InitProducerIdResponse(
                error_code=error, producer_id=request.producer_id, producer_epoch=request.producer_epoch + 1
            )
        return super()._init_producer_id(request, version, error)

    def _add_partitions_to_txn(self, request, version, error):
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=number, partition_error_code=error)
                        for number in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    def _add_offsets_to_txn(self, request, version, error):
        return AddOffsetsToTxnResponse(error_code=error)

    def _txn_offset_commit(self, request, version, error):
        topics = [
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=part.partition_index, error_code=error)
                    for part in topic.partitions
                ],
            )
            for topic in request.topics
        ]
        return TxnOffsetCommitResponse(topics=topics)

    def _end_txn(self, request, version, error):
        if not error:
            self.ends.append(request.committed)
        return EndTxnResponse(error_code=error)


class RefusingGroup(FakeCoordinator):
    """Its coordinator answers JoinGroup and ConsumerGroupHeartbeat as the script says."""

    served = (*FakeCoordinator.served, ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT)
