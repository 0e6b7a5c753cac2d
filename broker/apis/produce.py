"""Produce: append record batches to partitions that this broker leads.

acks=1 answers when the leader has the records, acks=all when the high watermark has passed them, acks=0 not at all:
there an error closes the connection, since the client could not hear of it otherwise. Where flush.messages is reached,
the records are forced to disk before anything is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from broker.errors import RequestError, code_of
from broker.handler import Handler, Needs, Operation, Resource, then
from broker.network.connection import CloseConnectionError
from broker.produced_records import check_records
from broker.request_context import RequestContext
from broker.services import Services
from broker.topic_names import INTERNAL_TOPICS
from protocol.error_codes import ErrorCode
from protocol.errors import ProtocolError
from protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from replication.errors import ReplicationError
from replication.partition import ACKS_ALL
from replication.replica_manager import ReplicaManager, TopicPartition
from storage.errors import InvalidTimestampError, RecordValidationError, StorageError

FIRST_VERSION_WITH_LEADER = 10
INVALID_OFFSET = -1
INTERNAL_CLIENT_ID = "__admin_client"
WITHOUT_LOG_START_OFFSET = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""After all other errors Kafka says where the log begins."""


class ProduceHandler(Handler[ProduceRequest, ProduceResponse]):
    """Appends through the replica manager."""

    __slots__ = ("_replicas", "_services")
    needs = Needs(Resource.TOPIC, Operation.WRITE)

    def __init__(self, services: Services) -> None:
        self._services = services
        self._replicas: ReplicaManager = services.replicas

    def handle(
        self, request: ProduceRequest, context: RequestContext
    ) -> ProduceResponse | asyncio.Future[ProduceResponse] | Coroutine[Any, Any, ProduceResponse | None] | None:
        """See the module's text. Raises CloseConnectionError for an error under acks=0."""
        if request.acks not in (0, 1, ACKS_ALL):
            return self.failed(request, ErrorCode.INVALID_REQUIRED_ACKS)
        required: dict[TopicPartition, int] = {}
        unflushed: dict[TopicPartition, int] = {}
        partitions: dict[TopicPartition, PartitionProduceResponse] = {}
        topics = []
        for topic in request.topic_data:
            answers = []
            for data in topic.partition_data:
                answer = self._append(topic.name, data, request, context, required, unflushed)
                if request.acks == ACKS_ALL:
                    partitions[(topic.name, data.index)] = answer
                answers.append(answer)
            topics.append(TopicProduceResponse(name=topic.name, partition_responses=answers))
        response = ProduceResponse(responses=topics)
        if context.api_version >= FIRST_VERSION_WITH_LEADER:
            self._add_leaders(response, context)
        if unflushed:
            finish = partial(self._finish, request, response, partitions, required)
            return self._flush_first(unflushed, response, finish)
        return self._finish(request, response, partitions, required)

    def _finish(
        self,
        request: ProduceRequest,
        response: ProduceResponse,
        partitions: Mapping[TopicPartition, PartitionProduceResponse],
        required: Mapping[TopicPartition, int],
    ) -> ProduceResponse | asyncio.Future[ProduceResponse] | None:
        """Answer now, or when the high watermark has passed what is `required`."""
        if not required:
            return self._answered(request, response)
        waiting = self._replicas.wait_for_commit(required, request.timeout_ms / 1000)
        if waiting is None:
            return response

        def committed(outcomes: dict[TopicPartition, Exception | None]) -> ProduceResponse:
            for key, error in outcomes.items():
                if error is not None:
                    partitions[key].error_code = code_of(error)  # what was appended stays: so does its offset
            return response

        return then(waiting, committed)

    async def _flush_first(
        self,
        unflushed: Mapping[TopicPartition, int],
        response: ProduceResponse,
        finish: Callable[[], ProduceResponse | asyncio.Future[ProduceResponse] | None],
    ) -> ProduceResponse | None:
        """Force the logs to disk up to the given offsets, then answer. A log that fails fails its partition."""
        logs = self._services.logs
        failed: dict[TopicPartition, ErrorCode] = {}
        for key, end_offset in unflushed.items():
            log = logs.get(*key)
            try:
                if log is not None:
                    await logs.flush_up_to(log, end_offset)
            except StorageError as error:
                failed[key] = code_of(error)
        for topic in response.responses:
            for partition in topic.partition_responses:
                code = failed.get((topic.name, partition.index))
                if code is not None:
                    partition.error_code, partition.base_offset = code, INVALID_OFFSET
        answer = finish()
        return await answer if isinstance(answer, asyncio.Future) else answer

    def _append(
        self,
        topic: str,
        data: PartitionProduceData,
        request: ProduceRequest,
        context: RequestContext,
        required: dict[TopicPartition, int],
        unflushed: dict[TopicPartition, int],
    ) -> PartitionProduceResponse:
        acks = request.acks
        try:
            records = check_records(
                data.records, context.api_version, transactional=request.transactional_id is not None
            )
            if topic in INTERNAL_TOPICS and context.client_id != INTERNAL_CLIENT_ID:
                raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"clients do not write to {topic}")
        except (ProtocolError, RequestError) as error:
            exists = self._services.metadata.snapshot.partition(topic, data.index) is not None
            code = code_of(error) if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return _failed_partition(data.index, code)
        try:
            info = self._replicas.append(topic, data.index, records, acks)
        except (ReplicationError, StorageError, ProtocolError, OSError) as error:
            return self._refused(topic, data.index, error)
        if acks == ACKS_ALL:
            required[(topic, data.index)] = info.last_offset + 1
        if info.flush_required:
            unflushed[(topic, data.index)] = info.last_offset + 1
        return PartitionProduceResponse(
            index=data.index,
            base_offset=info.first_offset,
            log_append_time_ms=info.log_append_time,
            log_start_offset=info.log_start_offset,
        )

    def _refused(self, topic: str, index: int, error: Exception) -> PartitionProduceResponse:
        """The answer for a partition that took nothing."""
        code = code_of(error)
        response = _failed_partition(index, code)
        if code not in WITHOUT_LOG_START_OFFSET:
            partition = self._replicas.partitions.get((topic, index))
            if partition is not None and partition.log is not None:
                response.log_start_offset = partition.log.log_start_offset
        if isinstance(error, RecordValidationError | InvalidTimestampError):
            response.error_message = str(error)
            response.record_errors = [
                BatchIndexAndErrorMessage(batch_index=batch_index, batch_index_error_message=message)
                for batch_index, message in error.record_errors
            ]
        return response

    def _add_leaders(self, response: ProduceResponse, context: RequestContext) -> None:
        """Tell producers that came to the wrong broker who leads (KIP-951)."""
        snapshot = self._services.metadata.snapshot
        endpoints: dict[int, NodeEndpoint] = {}
        for topic in response.responses:
            for partition in topic.partition_responses:
                if partition.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    continue
                state = snapshot.partition(topic.name, partition.index)
                if state is None:
                    continue
                partition.current_leader = LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
                node = snapshot.node(state.leader, context.listener_name)
                if node is not None:
                    endpoints[node.id] = NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
        response.node_endpoints = list(endpoints.values())

    def _answered(self, request: ProduceRequest, response: ProduceResponse) -> ProduceResponse | None:
        if request.acks != 0:
            return response
        for topic in response.responses:
            for partition in topic.partition_responses:
                if partition.error_code != ErrorCode.NONE:
                    code = ErrorCode(partition.error_code).name
                    raise CloseConnectionError(
                        f"Produce with acks=0 to {topic.name}-{partition.index} failed with {code}"
                    )
        return None

    def failed(self, request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
        """Every partition of the request failed."""
        return ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic.name,
                    partition_responses=[_failed_partition(data.index, code) for data in topic.partition_data],
                )
                for topic in request.topic_data
            ]
        )


def _failed_partition(index: int, code: ErrorCode) -> PartitionProduceResponse:
    return PartitionProduceResponse(index=index, error_code=code, base_offset=INVALID_OFFSET)
