"""WriteTxnMarkers: a transaction coordinator ends transactions in partitions that this broker leads (KIP-98).

Each marker is a control batch. The answer is sent when the markers are committed (and flushed to disk if flush.messages
requires it). A marker in a partition of `__consumer_offsets` also completes or drops the offsets that the transaction
committed: the group coordinator is notified before the answer.
"""

from __future__ import annotations

import logging

from broker.coordinator.transactions.transaction import TopicPartition
from broker.errors import unexpected_code
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from broker.topics import OFFSETS_TOPIC
from protocol.control_records import ControlRecordType, EndTransactionMarker, end_marker_batch
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from replication.errors import ReplicationError
from replication.partition import ACKS_ALL
from storage.errors import StorageError
from storage.log.append import AppendOrigin

logger = logging.getLogger(__name__)

Codes = dict[TopicPartition, ErrorCode]
Offsets = dict[TopicPartition, int]


class WriteTxnMarkersHandler(Handler[WriteTxnMarkersRequest, WriteTxnMarkersResponse]):
    """Appends through the replica manager."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: WriteTxnMarkersRequest, context: RequestContext) -> WriteTxnMarkersResponse:
        """See the module docstring."""
        required: Offsets = {}
        unflushed: Offsets = {}
        appended: list[Offsets] = [{} for _ in request.markers]
        outcomes = [
            self._append(marker, offsets, required, unflushed)
            for marker, offsets in zip(request.markers, appended, strict=True)
        ]
        timeout_s = self._services.config.request_timeout_ms / 1000
        waiting = self._services.replicas.wait_for_appends(required, unflushed, timeout_s)
        failures = {} if waiting is None else await waiting
        for codes in outcomes:
            for key, code in codes.items():
                failure = failures.get(key)
                if code is ErrorCode.NONE and failure is not None:
                    codes[key] = unexpected_code(failure, "a transaction marker")
        for marker, codes, offsets in zip(request.markers, outcomes, appended, strict=True):
            self._tell_groups(marker, codes, offsets)
        return _answer(request, outcomes)

    def _append(self, marker: WritableTxnMarker, offsets: Offsets, required: Offsets, unflushed: Offsets) -> Codes:
        """Append one transaction's marker to its partitions, and add its offset in each to `offsets`.

        `required` and `unflushed` get the ends to wait for.
        """
        if marker.producer_id < 0 or marker.producer_epoch < 0:
            return _codes_of_all(marker, ErrorCode.INVALID_REQUEST)
        kind = ControlRecordType.COMMIT if marker.transaction_result else ControlRecordType.ABORT
        codes: Codes = {}
        for topic in marker.topics:
            for partition in topic.partition_indexes:
                key = (topic.name, partition)
                batch = end_marker_batch(
                    EndTransactionMarker(kind, marker.coordinator_epoch),
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                    timestamp=self._services.now_ms(),
                )
                try:
                    info = self._services.replicas.append(*key, memoryview(batch), ACKS_ALL, AppendOrigin.COORDINATOR)
                except (ReplicationError, StorageError, ProtocolError, OSError) as error:
                    codes[key] = unexpected_code(error, "a transaction marker")
                else:
                    codes[key] = ErrorCode.NONE
                    offsets[key] = info.first_offset
                    required[key] = info.last_offset + 1
                    if info.flush_required:
                        unflushed[key] = info.last_offset + 1
        return codes

    def _tell_groups(self, marker: WritableTxnMarker, codes: Codes, offsets: Offsets) -> None:
        markers = {
            partition: offsets[(topic, partition)]
            for (topic, partition), code in codes.items()
            if topic == OFFSETS_TOPIC and code is ErrorCode.NONE
        }
        if markers:
            self._services.coordination.complete_group_transaction(
                marker.producer_id, markers, marker.transaction_result
            )

    def failed(self, request: WriteTxnMarkersRequest, code: ErrorCode) -> WriteTxnMarkersResponse:
        """Return the answer with the error for every marker."""
        return _answer(request, [_codes_of_all(marker, code) for marker in request.markers])


def _codes_of_all(marker: WritableTxnMarker, code: ErrorCode) -> Codes:
    return {(topic.name, partition): code for topic in marker.topics for partition in topic.partition_indexes}


def _answer(request: WriteTxnMarkersRequest, outcomes: list[Codes]) -> WriteTxnMarkersResponse:
    """Return the answer, with one result for each producer id, like Kafka."""
    by_producer: dict[int, Codes] = {}
    for marker, codes in zip(request.markers, outcomes, strict=True):
        by_producer.setdefault(marker.producer_id, {}).update(codes)
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(producer_id=producer_id, topics=_topics(codes))
            for producer_id, codes in by_producer.items()
        ]
    )


def _topics(codes: Codes) -> list[WritableTxnMarkerTopicResult]:
    topics: dict[str, WritableTxnMarkerTopicResult] = {}
    for (topic, partition), code in codes.items():
        result = topics.setdefault(topic, WritableTxnMarkerTopicResult(name=topic))
        result.partitions.append(WritableTxnMarkerPartitionResult(partition_index=partition, error_code=code))
    return list(topics.values())
