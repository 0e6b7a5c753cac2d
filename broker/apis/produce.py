"""Produce: append record batches to partitions that this broker leads.

With acks=1 the answer is sent when the leader has the records, with acks=all when the high watermark has passed them.
With acks=0 there is no answer: an error closes the connection, because the client cannot learn of it otherwise. If
flush.messages is reached, the records are flushed to disk before the answer.

The first batch of a transaction in a partition is appended only after its coordinator has confirmed that the partition
belongs to it (KIP-890, replication/transaction_verification.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from broker.errors import RequestError, code_of
from broker.network.connection import CloseConnectionError
from broker.produced_records import check_records
from broker.requests.context import RequestContext
from broker.requests.handler import CancelOnDisconnect, Handler
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
from protocol.record_batch import BATCH_HEADER_SIZE, MAGIC_V2, RecordBatch
from replication.errors import ReplicationError
from replication.partition import ACKS_ALL
from replication.replica_manager import Outcomes, TopicPartition
from replication.transaction_verification import UNVERIFIED, VerificationGuard
from storage.errors import InvalidTimestampError, RecordValidationError, StorageError
from storage.log.batch_validation import BatchValidation, LargeBatchError

FIRST_VERSION_WITH_LEADER = 10
FIRST_VERSION_WITH_ABORTABLE = 11
INVALID_OFFSET = -1
VALID_ACKS = frozenset({0, 1, ACKS_ALL})
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
"""With all other errors, Kafka's answer has the log start offset."""
COULD_NOT_VERIFY = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Replaced with NOT_ENOUGH_REPLICAS: all producers retry after it, without a metadata refresh."""


Answer = ProduceResponse | CancelOnDisconnect[ProduceResponse | None] | None


class ProduceHandler(Handler[ProduceRequest, ProduceResponse]):
    """Appends through the replica manager."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    def handle(
        self, request: ProduceRequest, context: RequestContext
    ) -> Answer | Coroutine[Any, Any, ProduceResponse | None]:
        """See the module docstring. Raises CloseConnectionError for an error under acks=0."""
        return Appends(self._services, request, context).answer()

    def failed(self, request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
        """Return the answer with the error for every partition."""
        return _failed(request, code)


class Appends:
    """The appends of one request, and the waits before its answer."""

    __slots__ = (
        "_context",
        "_guards",
        "_large",
        "_producer",
        "_request",
        "_services",
        "_transactional",
        "_unverifiable",
        "has_failures",
        "required",
        "response",
        "saw_another_leader",
        "unflushed",
    )

    def __init__(self, services: Services, request: ProduceRequest, context: RequestContext) -> None:
        self._services = services
        self._request = request
        self._context = context
        self._transactional = request.transactional_id is not None
        self._guards: dict[TopicPartition, VerificationGuard] = {}
        """The guards of transactional batches, if transactions are verified."""
        self._producer = (-1, -1)
        self._unverifiable: dict[TopicPartition, ErrorCode] = {}
        self._large: list[tuple[str, list[PartitionProduceResponse], int, PartitionProduceData, BatchValidation]] = []
        """Batches to validate in another thread: topic, where the answer belongs, data."""
        self.required: dict[TopicPartition, int] = {}
        """The offsets that the high watermarks must reach (acks=all)."""
        self.unflushed: dict[TopicPartition, int] = {}
        """The offsets up to which logs must be flushed to disk before the answer (flush.messages)."""
        self.has_failures = False
        self.saw_another_leader = False
        """Whether another broker leads one of the partitions."""

    def answer(self) -> Answer | Coroutine[Any, Any, ProduceResponse | None]:
        """Answer the request: see the module docstring. Raises CloseConnectionError for an error under acks=0."""
        if self._services.produce_watchers:
            for watcher in self._services.produce_watchers:
                watcher.produce_received(self._context)
        if self._transactional and self._services.coordination.verifier.is_enabled:
            try:
                unverified = self._start_verification()
            except RequestError as error:
                if self._request.acks == 0:
                    raise CloseConnectionError(str(error)) from None
                return _failed(self._request, error.code)
            if unverified:
                return self._verify_and_append(unverified)
        return self._append_all()

    def _start_verification(self) -> list[TopicPartition]:
        """Return the partitions that the coordinator must verify. Raises RequestError for several producers."""
        unverified = []
        producers = set()
        services = self._services
        for topic in self._request.topic_data:
            for data in topic.partition_data:
                records = data.records
                if records is None or len(records) < BATCH_HEADER_SIZE or records[16] != MAGIC_V2:
                    continue
                batch = RecordBatch(memoryview(records))
                if not (batch.is_transactional and batch.has_producer_id):
                    continue
                key = (topic.name, data.index)
                producers.add((batch.producer_id, batch.producer_epoch))
                self._guards[key] = UNVERIFIED
                partition = services.replicas.partitions.get(key)
                if partition is None or not partition.is_leader:
                    continue  # the append is refused with the right error
                guard = partition.start_verification(
                    batch.producer_id, batch.producer_epoch, batch.base_sequence, services.now_ms()
                )
                if guard is not None:
                    self._guards[key] = guard
                    unverified.append(key)
        if len(producers) > 1:
            raise RequestError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "batches of several producers in one transaction")
        if producers:
            (self._producer,) = producers
        return unverified

    async def _verify_and_append(self, unverified: list[TopicPartition]) -> ProduceResponse | None:
        """Ask the coordinator, then append to the partitions that belong to the transaction."""
        assert self._request.transactional_id is not None
        self._unverifiable = await self._services.coordination.verifier.verify(
            self._request.transactional_id,
            *self._producer,
            unverified,
            knows_abortable=self._context.api_version >= FIRST_VERSION_WITH_ABORTABLE,
        )
        answer = self._append_all()
        return answer if isinstance(answer, ProduceResponse) or answer is None else await answer

    def _append_all(self) -> Answer | Coroutine[Any, Any, ProduceResponse | None]:
        """Append to every partition, except for large batches, which are validated first.

        Answer as acks and flush.messages require.
        """
        topics = []
        for topic in self._request.topic_data:
            name = topic.name
            partitions = []
            for data in topic.partition_data:
                try:
                    partitions.append(self._append(name, data))
                except LargeBatchError as large:
                    self._large.append((name, partitions, len(partitions), data, large.validation))
                    partitions.append(PartitionProduceResponse(index=data.index))
            topics.append(TopicProduceResponse(name=name, partition_responses=partitions))
        self.response = response = ProduceResponse(responses=topics)
        if self._large:
            return self._validate_and_answer()
        if not (self.required or self.unflushed or self.has_failures):
            return None if self._request.acks == 0 else response
        self._add_leaders_if_known()
        timeout_s = self._request.timeout_ms / 1000
        waiting = self._services.replicas.wait_for_appends(self.required, self.unflushed, timeout_s)
        if waiting is None:
            return self.finish({})
        return self._finish_after_flush(waiting) if self.unflushed else CancelOnDisconnect(waiting, self.finish)

    async def _validate_and_answer(self) -> ProduceResponse | None:
        """Validate the large batches in another thread, one after the other, and append them; then answer.

        The wait for an append begins at once, so that it sees a change of the leader while the next batch is validated.
        """
        waits = [self._begin_wait()]
        for topic, partitions, place, data, validation in self._large:
            try:
                await self._services.logs.validations.run(validation.run)
            except (StorageError, ProtocolError) as error:
                partitions[place] = self._refused(topic, data.index, error)
            else:
                partitions[place] = self._append(topic, data, validation)
                waits.append(self._begin_wait())
        outcomes: Outcomes = {}
        for waiting in waits:
            if waiting is not None:
                outcomes |= await waiting
        self._add_leaders_if_known()
        return self.finish(outcomes)

    def _begin_wait(self) -> asyncio.Future[Outcomes] | None:
        """Wait for the appends since the last call."""
        required, self.required = self.required, {}
        unflushed, self.unflushed = self.unflushed, {}
        return self._services.replicas.wait_for_appends(required, unflushed, self._request.timeout_ms / 1000)

    def _append(
        self, topic: str, data: PartitionProduceData, validation: BatchValidation | None = None
    ) -> PartitionProduceResponse:
        context = self._context
        acks = self._request.acks
        index = data.index
        try:
            records = check_records(data.records, context.api_version, transactional=self._transactional)
            if acks not in VALID_ACKS:
                raise RequestError(ErrorCode.INVALID_REQUIRED_ACKS, f"acks must be 0, 1 or -1, not {acks}")
            if topic in INTERNAL_TOPICS and context.client_id != INTERNAL_CLIENT_ID:
                raise RequestError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"clients do not write to {topic}")
        except (ProtocolError, RequestError) as error:
            self.has_failures = True
            exists = self._services.metadata.snapshot.partition(topic, index) is not None
            return _failed_partition(index, code_of(error) if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self._unverifiable and (topic, index) in self._unverifiable:
            self.has_failures = True
            return _unverified_partition(index, self._unverifiable[(topic, index)])
        guard = self._guards.get((topic, index)) if self._guards else None
        try:
            info = self._services.replicas.append(topic, index, validation or records, acks, guard=guard)
        except (ReplicationError, StorageError, ProtocolError, OSError) as error:
            return self._refused(topic, index, error)
        if acks == ACKS_ALL and not self._services.replicas.is_committed(topic, index, info.last_offset):
            self.required[(topic, index)] = info.last_offset + 1
        if info.flush_required:
            self.unflushed[(topic, index)] = info.last_offset + 1
        return PartitionProduceResponse(
            index=index,
            base_offset=info.first_offset,
            log_append_time_ms=info.log_append_time,
            log_start_offset=info.log_start_offset,
        )

    def _refused(self, topic: str, index: int, error: Exception) -> PartitionProduceResponse:
        """Return the answer for a partition whose append failed."""
        self.has_failures = True
        code = code_of(error)
        self.saw_another_leader = self.saw_another_leader or code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        response = _failed_partition(index, code)
        if code not in WITHOUT_LOG_START_OFFSET:
            partition = self._services.replicas.partitions.get((topic, index))
            if partition is not None and partition.log is not None:
                response.log_start_offset = partition.log.log_start_offset
        if isinstance(error, RecordValidationError | InvalidTimestampError):
            response.error_message = str(error)
            response.record_errors = [
                BatchIndexAndErrorMessage(batch_index=batch_index, batch_index_error_message=message)
                for batch_index, message in error.record_errors
            ]
        return response

    def _add_leaders_if_known(self) -> None:
        """Add the current leaders of partitions that this broker does not lead (KIP-951)."""
        if not self.saw_another_leader or self._context.api_version < FIRST_VERSION_WITH_LEADER:
            return
        snapshot = self._services.metadata.snapshot
        endpoints: dict[int, NodeEndpoint] = {}
        for topic in self.response.responses:
            for partition in topic.partition_responses:
                if partition.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    continue
                state = snapshot.partition(topic.name, partition.index)
                if state is None:
                    continue
                partition.current_leader = LeaderIdAndEpoch(leader_id=state.leader, leader_epoch=state.leader_epoch)
                node = snapshot.node(state.leader, self._context.listener_name)
                if node is not None:
                    endpoints[node.id] = NodeEndpoint(node_id=node.id, host=node.host, port=node.port, rack=node.rack)
        self.response.node_endpoints = list(endpoints.values())

    def finish(self, outcomes: Outcomes) -> ProduceResponse | None:
        """Return the answer, given the outcomes of the appends that were waited for."""
        for key, error in outcomes.items():
            if error is not None:
                self._fail(key, code_of(error))
        if self._request.acks == 0:
            self._check_unanswered()
            return None
        return self.response

    async def _finish_after_flush(self, waiting: asyncio.Future[Outcomes]) -> ProduceResponse | None:
        return self.finish(await waiting)

    def _fail(self, key: TopicPartition, code: ErrorCode) -> None:
        """Set the error of a partition whose records are appended but not safe; as in Kafka, its offset stays."""
        for topic in self.response.responses:
            for partition in topic.partition_responses:
                if (topic.name, partition.index) == key:
                    partition.error_code = code

    def _check_unanswered(self) -> None:
        """Raise CloseConnectionError for an error under acks=0, where the producer gets no answer."""
        for topic in self.response.responses:
            for partition in topic.partition_responses:
                if partition.error_code != ErrorCode.NONE:
                    code = ErrorCode(partition.error_code).name
                    raise CloseConnectionError(
                        f"Produce with acks=0 to {topic.name}-{partition.index} failed with {code}"
                    )


def _failed(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    """Return the answer with the error for every partition."""
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


def _unverified_partition(index: int, code: ErrorCode) -> PartitionProduceResponse:
    """Return the answer for a partition that the coordinator did not confirm."""
    message = None
    if code in COULD_NOT_VERIFY:
        message = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        code = ErrorCode.NOT_ENOUGH_REPLICAS
    elif code is ErrorCode.INVALID_TXN_STATE:
        message = "Partition was not added to the transaction"
    response = _failed_partition(index, code)
    response.error_message = message
    return response
