"""A small broker whose answers a test scripts: for errors and delays that are rare in a real broker.

It serves ApiVersions, Metadata, Produce, Fetch, ListOffsets and InitProducerId from lists in memory.
`script` maps an API key to a list of things to do instead, used up from the front: an ErrorCode (answer
with it), CLOSE (drop the connection unanswered), SILENCE (go on to the next request), STALL (and to no
further one), APPLY_AND_CLOSE (carry out, then drop the connection), or a function.
"""

import asyncio
import contextlib
import inspect
from collections import defaultdict

from protocol.api_keys import ApiKey, request_class
from protocol.error_codes import ErrorCode
from protocol.headers import decode_request_header, response_header_version
from protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from protocol.messages.init_producer_id import InitProducerIdResponse
from protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from protocol.record_batch import read_batch, set_base_offset
from support.tcp_server import TcpServer

CLOSE = "close"
SILENCE = "silence"
STALL = "stall"
APPLY_AND_CLOSE = "apply and close"

SERVED = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.METADATA,
    ApiKey.API_VERSIONS,
    ApiKey.INIT_PRODUCER_ID,
)


class FakeBroker:
    """`topics` maps a name to its number of partitions; `logs` holds (topic, partition) → bytes of its
    batches.
    """

    served = SERVED

    def __init__(self, topics=None, *, node_id=0, cluster=None):
        self.node_id = node_id
        self.cluster = cluster if cluster is not None else [self]
        self.topics = topics if topics is not None else {"t": 1}
        self.leaders = {}
        self.logs = defaultdict(list)
        self.next_offsets = defaultdict(int)
        self.forgotten = defaultdict(int)
        self.script = defaultdict(list)
        self.requests = []
        self.versions = {}
        self.next_producer_id = 1000
        self.producer_epoch = 0
        self._server = TcpServer(self._serve)

    async def __aenter__(self):
        await self._server.listen()
        return self

    async def __aexit__(self, *_):
        await self.stop()

    async def stop(self):
        await self._server.close()

    def drop_connections(self):
        self._server.drop()

    @property
    def connections(self):
        """The number of open connections."""
        return self._server.open_connections

    @property
    def port(self):
        return self._server.port

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def seen(self, api_key):
        """The received requests of an API, in order."""
        return [request for key, request in self.requests if key == api_key]

    async def _serve(self, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                answer = await self._answer(frame)
                if answer is CLOSE:
                    break
                if answer is STALL:
                    await reader.read()
                    break
                if answer is not None:
                    writer.write(len(answer).to_bytes(4, "big") + answer)

    async def _answer(self, frame):
        header, offset = decode_request_header(frame)
        key, version = header.request_api_key, header.request_api_version
        request = request_class(key).decode(frame, version, offset)[0]
        self.requests.append((key, request))
        action = self.script[key].pop(0) if self.script[key] else None
        response = None
        if callable(action):
            response = action(request, version)
            if inspect.isawaitable(response):
                response = await response
            action = response if isinstance(response, str) else action
        if action == CLOSE:
            return CLOSE
        if action == SILENCE:
            return None
        if not callable(action) and action != STALL:
            error = action if isinstance(action, ErrorCode) else ErrorCode.NONE
            response = getattr(self, f"_{ApiKey(key).name.lower()}")(request, version, error)
        if action == APPLY_AND_CLOSE:
            return CLOSE
        if response is None or response in (CLOSE, STALL):
            return response
        if isinstance(response, bytes):
            return response
        if isinstance(response, tuple):  # a message in another version than the one asked for
            response, version = response
        head = header.correlation_id.to_bytes(4, "big")
        if response_header_version(key, version) == 1:
            head += b"\0"
        return head + response.to_bytes(version)

    def _api_versions(self, request, version, error):
        keys = []
        for key in self.served:
            low, high = self.versions.get(key, (0, request_class(key).MAX_VERSION))
            if high >= 0:
                keys.append(ApiVersion(api_key=key, min_version=low, max_version=high))
        return ApiVersionsResponse(error_code=error, api_keys=keys)

    def _metadata(self, request, version, error):
        names = list(self.topics) if request.topics is None else [topic.name for topic in request.topics]
        topics = []
        for name in names:
            if name not in self.topics or error:
                code = error or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                topics.append(MetadataResponseTopic(error_code=code, name=name, partitions=[]))
                continue
            partitions = [
                MetadataResponsePartition(
                    partition_index=number,
                    leader_id=self.leaders.get((name, number), self.node_id),
                    leader_epoch=0,
                    replica_nodes=[self.node_id],
                    isr_nodes=[self.node_id],
                )
                for number in range(self.topics[name])
            ]
            topics.append(MetadataResponseTopic(name=name, topic_id=topic_id(name), partitions=partitions))
        brokers = [
            MetadataResponseBroker(node_id=broker.node_id, host="127.0.0.1", port=broker.port)
            for broker in self.cluster
        ]
        return MetadataResponse(
            brokers=brokers, controller_id=self.cluster[0].node_id, cluster_id="fake", topics=topics
        )

    def _init_producer_id(self, request, version, error):
        self.next_producer_id += 1
        return InitProducerIdResponse(
            error_code=error, producer_id=self.next_producer_id, producer_epoch=self.producer_epoch
        )

    def append(self, topic, partition, batch):
        """Write a batch and return its base offset."""
        data = bytearray(batch)
        base = self.next_offsets[topic, partition]
        set_base_offset(data, 0, base)
        self.next_offsets[topic, partition] = base + read_batch(data).record_count
        self.logs[topic, partition].append(bytes(data))
        return base

    def records(self, topic, partition):
        """All records written to a partition."""
        return [record for data in self.logs[topic, partition] for record in read_batch(data).records()]

    def _produce(self, request, version, error):
        topics = []
        for topic in request.topic_data:
            answers = []
            for part in topic.partition_data:
                leader = self.leaders.get((topic.name, part.index), self.node_id)
                code = error if error or leader == self.node_id else ErrorCode.NOT_LEADER_OR_FOLLOWER
                code = code or self._sequence_error(topic.name, part)
                base = -1 if code else self._produce_one(topic.name, part)
                answers.append(PartitionProduceResponse(index=part.index, error_code=code, base_offset=base))
            topics.append(TopicProduceResponse(name=topic.name, partition_responses=answers))
        if request.acks == 0:  # an error is told by the end of the connection
            return CLOSE if any(part.error_code for topic in topics for part in topic.partition_responses) else None
        return ProduceResponse(responses=topics)

    def forget(self):
        """Forget all but the last batch of each producer in each partition, as a restart does."""
        for key, log in self.logs.items():
            self.forgotten[key] = len(log)

    def _remembered(self, topic, partition, producer_id):
        """The known last batches of a producer."""
        forgotten = self.forgotten[topic, partition]
        known = [(index, read_batch(data)) for index, data in enumerate(self.logs[topic, partition])]
        known = [(index, batch) for index, batch in known if batch.producer_id == producer_id]
        return [batch for index, batch in known[-5:] if index >= forgotten or index == known[-1][0]]

    def _sequence_error(self, topic, part):
        """As a broker does it: the next number, one that it remembers, any of a producer that it has never seen."""
        batch = read_batch(part.records)
        known = self._remembered(topic, part.index, batch.producer_id)
        if batch.producer_id < 0 or not known or _identity(batch) in map(_identity, known):
            return ErrorCode.NONE
        last = known[-1]
        if batch.producer_epoch < last.producer_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        expected = 0 if batch.producer_epoch > last.producer_epoch else last.base_sequence + last.record_count
        return ErrorCode.NONE if batch.base_sequence == expected else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER

    def _produce_one(self, topic, part):
        batch = read_batch(part.records)
        if batch.producer_id >= 0:  # as a broker does: a batch that is there already is not written again
            for known in self._remembered(topic, part.index, batch.producer_id):
                if _identity(known) == _identity(batch):
                    return known.base_offset
        return self.append(topic, part.index, part.records)

    def _list_offsets(self, request, version, error):
        topics = []
        for topic in request.topics:
            answers = []
            for part in topic.partitions:
                offset = self.next_offsets[topic.name, part.partition_index] if part.timestamp == -1 else 0
                if part.timestamp >= 0:
                    later = [
                        record.offset
                        for record in self.records(topic.name, part.partition_index)
                        if record.timestamp >= part.timestamp
                    ]
                    offset = later[0] if later else -1
                answers.append(
                    ListOffsetsPartitionResponse(
                        partition_index=part.partition_index, error_code=error, timestamp=-1, offset=offset
                    )
                )
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        return ListOffsetsResponse(topics=topics)

    def _fetch(self, request, version, error):
        names = {topic_id(name): name for name in self.topics}
        topics = []
        for topic in request.topics:
            name = topic.topic if version < 13 else names[topic.topic_id]
            answers = []
            for part in topic.partitions:
                end = self.next_offsets[name, part.partition]
                code = error
                if not code and not 0 <= part.fetch_offset <= end:
                    code = ErrorCode.OFFSET_OUT_OF_RANGE
                data = b"".join(
                    one for one in self.logs[name, part.partition] if read_batch(one).next_offset > part.fetch_offset
                )
                answers.append(
                    PartitionData(
                        partition_index=part.partition,
                        error_code=code,
                        high_watermark=end,
                        last_stable_offset=end,
                        log_start_offset=0,
                        records=b"" if code else data[: max(part.partition_max_bytes, _first_size(data))],
                    )
                )
            topics.append(FetchableTopicResponse(topic=name, topic_id=topic_id(name), partitions=answers))
        return FetchResponse(responses=topics)


def _first_size(data):
    return read_batch(data[: 12 + int.from_bytes(data[8:12], "big")]).size_bytes if data else 0


def topic_id(name):
    return name.encode().ljust(16, b"\1")[:16]


def _identity(batch):
    return batch.producer_id, batch.producer_epoch, batch.base_sequence
