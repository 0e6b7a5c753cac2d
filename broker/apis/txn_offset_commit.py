"""TxnOffsetCommit: commit offsets of a group as part of a transaction (KIP-98; with members since KIP-447)."""

from __future__ import annotations

from broker.coordinator.coordinator_log import COMMON_CODES
from broker.coordinator.offset_manager import Codes, Committer
from broker.coordinator.offsets import CommittedOffset
from broker.errors import code_of
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from broker.topics import OFFSETS_TOPIC
from protocol.error_codes import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from protocol.record_batch import NO_SEQUENCE
from replication.errors import ReplicationError
from storage.errors import StorageError

FIRST_VERSION_WITH_LOADING = 2
"""Older producers do not understand COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""

FIRST_VERSION_WITH_ABORTABLE = 4


class TxnOffsetCommitHandler(Handler[TxnOffsetCommitRequest, TxnOffsetCommitResponse]):
    """Verifies the transaction with its coordinator (KIP-890), then commits through the group coordinator."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(self, request: TxnOffsetCommitRequest, context: RequestContext) -> TxnOffsetCommitResponse:
        """See the module docstring."""
        snapshot = self._services.metadata.snapshot
        now_ms = self._services.now_ms()
        offsets = {
            (topic.name, one.partition_index): CommittedOffset(
                one.committed_offset, one.committed_leader_epoch, one.committed_metadata or "", now_ms
            )
            for topic in request.topics
            for one in topic.partitions
            if snapshot.partition(topic.name, one.partition_index) is not None
        }
        codes: Codes = {}
        if offsets:
            error = await self._refusal(request, context.api_version)
            codes = await self._commit(request, offsets) if not error else dict.fromkeys(offsets, error)
        if context.api_version < FIRST_VERSION_WITH_LOADING:
            codes = {
                key: ErrorCode.COORDINATOR_NOT_AVAILABLE if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else code
                for key, code in codes.items()
            }
        return _response(request, codes)

    async def _refusal(self, request: TxnOffsetCommitRequest, version: int) -> ErrorCode:
        """Return why the producer must not commit here; NONE if it may."""
        coordination = self._services.coordination
        found = coordination.groups.find(request.group_id)
        if isinstance(found, ErrorCode):
            return found
        if request.producer_id < 0 or request.producer_epoch < 0:
            return ErrorCode.INVALID_REQUEST
        if not coordination.verifier.is_enabled:
            return ErrorCode.NONE
        key = (OFFSETS_TOPIC, coordination.group_log.partition_for(request.group_id))
        producer = (request.producer_id, request.producer_epoch)
        try:
            partition = self._services.replicas.partition(*key)
            guard = partition.start_verification(*producer, NO_SEQUENCE, self._services.now_ms())
            if guard is not None:
                refused = await coordination.verifier.verify(
                    request.transactional_id,
                    *producer,
                    [key],
                    knows_abortable=version >= FIRST_VERSION_WITH_ABORTABLE,
                )
                if key in refused:
                    # Offset commits have no NETWORK_EXCEPTION: the producer retries after COORDINATOR_LOAD_IN_PROGRESS.
                    code = refused[key]
                    return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if code is ErrorCode.NETWORK_EXCEPTION else code
            partition.check_verified(request.producer_id, guard)  # the append follows at once
        except (ReplicationError, StorageError) as error:
            return COMMON_CODES.get(code_of(error), code_of(error))
        return ErrorCode.NONE

    async def _commit(self, request: TxnOffsetCommitRequest, offsets: dict[tuple[str, int], CommittedOffset]) -> Codes:
        return await self._services.coordination.groups.offsets.commit_in_transaction(
            request.group_id,
            Committer(request.generation_id, request.member_id, request.group_instance_id),
            offsets,
            request.producer_id,
            request.producer_epoch,
        )

    def failed(self, request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
        """Return the answer with the error for every partition; nothing is committed."""
        keys = [(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions]
        return _response(request, dict.fromkeys(keys, code))


def _response(request: TxnOffsetCommitRequest, codes: Codes) -> TxnOffsetCommitResponse:
    """Return the answer in the order of the request; partitions without a code do not exist."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=one.partition_index,
                        error_code=codes.get((topic.name, one.partition_index), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
