"""Assertions about topics, as coroutine functions: `ottla.testing.async_assertions` describes them all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Unpack

from client.admin.admin import Admin
from client.consumer.fetched import ConsumerRecord
from client.consumer.reader import Reader
from client.errors import UnknownTopicOrPartitionError, error_for
from client.topic_partition import TopicPartition
from client.wire.connection import Connection
from client.wire.metadata import Metadata, TopicMetadata
from client.wire.security_options import SecurityKeywords
from ottla.testing.waiting import (
    CLIENT_ID,
    REQUEST_TIMEOUT_MS,
    RETRIES_MS,
    TIMEOUT_S,
    NotYetError,
    closed_after,
    deadline,
    number_of,
    poll,
    short,
)
from protocol.error_codes import ErrorCode
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from protocol.sentinels import NO_LEADER

Deserializer = Callable[[bytes], Any]

_CHECK_MS: Final = 100
"""How often a read is checked for its end if no records arrive: retention may have deleted the rest of it."""
_SHOWN_RECORDS: Final = 3


async def read_topic(
    bootstrap_servers: str | Sequence[str],
    topic: str,
    *,
    partitions: Collection[int] | None = None,
    isolation_level: str = "read_uncommitted",
    key_deserializer: Deserializer | None = None,
    value_deserializer: Deserializer | None = None,
    timeout_s: float = TIMEOUT_S,
    **security: Unpack[SecurityKeywords],
) -> list[ConsumerRecord]:
    """Return all records of a topic, sorted by partition and offset.

    The end is looked up once, at the start: records that are written later are not returned, so the call always ends.
    With `isolation_level="read_committed"`, the end is the last stable offset, and records of aborted transactions are
    omitted. `partitions` limits the read to these. The deserializers get keys and values that are not None.

    Waits until the topic exists. Raises AssertionError after `timeout_s` seconds, with the records up to then.
    """
    expected = f"the records of topic {topic} up to its end"
    async with (
        make_reader(bootstrap_servers, isolation_level, security) as reader,
        deadline(expected, timeout_s) as seen,
    ):
        found = await poll(lambda: _find_partitions(reader, topic, partitions), seen)
        ends = await poll(lambda: reader.end_offsets(found), seen)
        starts = await poll(lambda: reader.beginning_offsets(found), seen)
        reading = Reading(topic, starts, ends)
        seen.put(reading.__str__)
        await reading.read(reader)
    return reading.decoded(key_deserializer, value_deserializer)


async def wait_for_records(
    bootstrap_servers: str | Sequence[str],
    topic: str,
    count: int = 1,
    *,
    isolation_level: str = "read_uncommitted",
    key_deserializer: Deserializer | None = None,
    value_deserializer: Deserializer | None = None,
    timeout_s: float = TIMEOUT_S,
    **security: Unpack[SecurityKeywords],
) -> list[ConsumerRecord]:
    """Wait until a topic has at least `count` records, and return all that were read, sorted by partition and offset.

    Control records, and with `isolation_level="read_committed"` records of aborted transactions, do not count. There
    may be more than `count` records. The deserializers get keys and values that are not None.

    Raises AssertionError after `timeout_s` seconds, with the records up to then.
    """
    expected = f"{number_of(count, 'record')} in topic {topic}"
    async with (
        make_reader(bootstrap_servers, isolation_level, security) as reader,
        deadline(expected, timeout_s) as seen,
    ):
        found = await poll(lambda: _find_partitions(reader, topic, None), seen)
        starts = await poll(lambda: reader.beginning_offsets(found), seen)
        reading = Reading(topic, starts, None, count)
        seen.put(reading.__str__)
        await reading.read(reader)
    return reading.decoded(key_deserializer, value_deserializer)


async def wait_for_topic(
    bootstrap_servers: str | Sequence[str],
    topic: str,
    *,
    partitions: int | None = None,
    timeout_s: float = TIMEOUT_S,
    **security: Unpack[SecurityKeywords],
) -> TopicMetadata:
    """Wait until every broker knows a topic with a leader for each partition; return its metadata.

    `partitions` is the number of partitions that the topic must have. Clients that start after this call find the
    topic. Raises AssertionError after `timeout_s` seconds, with the topics or leaders that there are.
    """
    expected = f"topic {topic} on every broker, with a leader for each partition"
    if partitions is not None:
        expected = f"topic {topic} with {number_of(partitions, 'partition')} on every broker, each with a leader"

    def check(broker_id: int, found: TopicMetadata) -> None:
        if partitions is not None and len(found.partitions) != partitions:
            raise NotYetError(
                f"topic {topic} has {number_of(len(found.partitions), 'partition')} on broker {broker_id}"
            )
        without = [number for number, one in found.partitions.items() if one.leader == NO_LEADER]
        if without:
            raise NotYetError(f"no leader of {_listed(topic, without)} on broker {broker_id}")

    return await _wait_on_every_broker(bootstrap_servers, topic, expected, check, timeout_s, security)


async def wait_for_full_isr(
    bootstrap_servers: str | Sequence[str],
    topic: str,
    *,
    timeout_s: float = TIMEOUT_S,
    **security: Unpack[SecurityKeywords],
) -> TopicMetadata:
    """Wait until all replicas of a topic's partitions are in sync (in the ISR); return its metadata.

    All brokers must say so. Raises AssertionError after `timeout_s` seconds, with the leaders, replicas and ISRs of
    partitions that are not in sync.
    """

    def check(broker_id: int, found: TopicMetadata) -> None:
        behind = [
            f"{topic}-{one.partition}: leader {one.leader}, replicas {_ids(one.replicas)}, ISR {_ids(one.isr)}"
            for one in found.partitions.values()
            if one.leader == NO_LEADER or set(one.isr) != set(one.replicas)
        ]
        if behind:
            raise NotYetError(f"on broker {broker_id}: {'; '.join(behind)}")

    expected = f"all replicas of topic {topic} in the ISR"
    return await _wait_on_every_broker(bootstrap_servers, topic, expected, check, timeout_s, security)


class Reading:
    """A read of partitions from their start, up to fixed ends or up to a number of records."""

    def __init__(
        self,
        topic: str,
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int] | None,
        count: int | None = None,
    ) -> None:
        """starts, ends: offsets of partitions; without ends, all later records are read, too.

        count: after how many records to stop.
        """
        self._topic = topic
        self._starts = starts
        self._ends = ends
        self._count = count
        self.records: list[ConsumerRecord] = []
        self._left = {one for one in starts if ends is None or starts[one] < ends[one]}

    @property
    def _is_complete(self) -> bool:
        return not self._left or (self._count is not None and len(self.records) >= self._count)

    async def read(self, reader: Reader) -> None:
        """Read until the end. Raises the broker's error."""
        reader.assign({one: self._starts[one] for one in self._left})
        if self._ends is not None:
            reader.stop_at({one: self._ends[one] for one in self._left})
        while not self._is_complete:
            fetched = await reader.fetch(timeout_ms=_CHECK_MS)
            self.records += (record for record in fetched if self._is_wanted(record))
            if self._ends is not None:
                self._left = {one for one in self._left if not self._is_read(reader, one)}

    def _is_wanted(self, record: ConsumerRecord) -> bool:
        """Whether a record is before the end: the last batch may have more."""
        return self._ends is None or record.offset < self._ends[TopicPartition(record.topic, record.partition)]

    def _is_read(self, reader: Reader, partition: TopicPartition) -> bool:
        assert self._ends is not None
        return reader.is_known(partition) and reader.position(partition) >= self._ends[partition]

    def decoded(
        self, key_deserializer: Deserializer | None, value_deserializer: Deserializer | None
    ) -> list[ConsumerRecord]:
        """The records, sorted by partition and offset, with decoded keys and values."""
        ordered = sorted(self.records, key=lambda record: (record.partition, record.offset))
        if key_deserializer is None and value_deserializer is None:
            return ordered
        return [_decoded(record, key_deserializer, value_deserializer) for record in ordered]

    def __str__(self) -> str:
        if not self.records:
            counted = f"no records in {number_of(len(self._starts), 'partition')} of topic {self._topic}"
        else:
            numbers = [record.partition for record in self.records]
            each = ", ".join(f"{numbers.count(one)} in {self._topic}-{one}" for one in sorted(set(numbers)))
            last = "; ".join(_shown(record) for record in self.records[-_SHOWN_RECORDS:])
            counted = f"{number_of(len(self.records), 'record')} ({each}); the last: {last}"
        if self._ends is not None and self._left:
            counted += f"; not read to the end: {', '.join(f'{one} (end {self._ends[one]})' for one in self._left)}"
        return counted


def _shown(record: ConsumerRecord) -> str:
    key, value = short(record.key), short(record.value)
    return f"{record.topic}-{record.partition} offset {record.offset} key {key} value {value}"


def _decoded(
    record: ConsumerRecord, key_deserializer: Deserializer | None, value_deserializer: Deserializer | None
) -> ConsumerRecord:
    try:
        key, value = record.key, record.value
        if key_deserializer is not None and key is not None:
            key = key_deserializer(bytes(key))
        if value_deserializer is not None and value is not None:
            value = value_deserializer(bytes(value))
    except Exception as error:
        error.add_note(f"raised by a deserializer for the record {_shown(record)}")
        raise
    return record._replace(key=key, value=value)


def make_reader(
    bootstrap_servers: str | Sequence[str], isolation_level: str, security: SecurityKeywords
) -> contextlib.AbstractAsyncContextManager[Reader]:
    """Make a reader of whole topics, which is closed after the block."""
    reader = Reader(
        bootstrap_servers=bootstrap_servers,
        client_id=CLIENT_ID,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        isolation_level=isolation_level,
        auto_offset_reset="earliest",
        **security,
    )
    return closed_after(reader)


async def _find_partitions(reader: Reader, topic: str, wanted: Collection[int] | None) -> list[TopicPartition]:
    """The wanted partitions of a topic, or all. Raises NotYetError if the topic or a partition does not exist."""
    try:
        known = await reader.partitions_for(topic)
    except UnknownTopicOrPartitionError:
        raise NotYetError(f"there is no topic {topic}") from None
    missing = sorted(set(wanted or ()) - set(known))
    if missing:
        raise NotYetError(f"topic {topic} has no partition {_ids(missing)}, only {_ids(known)}")
    return [TopicPartition(topic, number) for number in (known if wanted is None else sorted(set(wanted)))]


class _TopicAdmin(Admin):
    """An admin client that asks every broker for its metadata of a topic."""

    async def ask_every_broker(self, topic: str) -> dict[int, TopicMetadata | None]:
        """The metadata of a topic on each broker; None if the broker does not know the topic.

        Raises the broker's error for a name that is not allowed.
        """
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)

        async def ask(node_id: int, connection: Connection) -> tuple[int, TopicMetadata | None]:
            response = await connection.call(request, MetadataResponse)
            for one in response.topics:
                if one.error_code and one.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise error_for(one.error_code, context=f"topic {topic} on broker {node_id}")
            return node_id, Metadata().updated(response).topics.get(topic)

        return dict(await self._ask_brokers(ask))


async def _wait_on_every_broker(
    bootstrap_servers: str | Sequence[str],
    topic: str,
    expected: str,
    check: Callable[[int, TopicMetadata], None],
    timeout_s: float,
    security: SecurityKeywords,
) -> TopicMetadata:
    """Wait until every broker knows the topic, and `check` raises for none of them; return the last one's metadata."""
    client = _TopicAdmin(
        bootstrap_servers=bootstrap_servers,
        client_id=CLIENT_ID,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        default_api_timeout_ms=RETRIES_MS,
        **security,
    )
    async with closed_after(client) as admin:

        async def look() -> TopicMetadata:
            last: TopicMetadata | None = None
            for broker_id, found in (await admin.ask_every_broker(topic)).items():
                if found is None or not found.partitions:
                    names = ", ".join(await admin.list_topics()) or "none"
                    raise NotYetError(f"broker {broker_id} has no topic {topic}; topics: {names}")
                check(broker_id, found)
                last = found
            if last is None:
                raise NotYetError("the metadata have no broker")
            return last

        async with deadline(expected, timeout_s) as seen:
            return await poll(look, seen)


def _ids(numbers: Collection[int]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _listed(topic: str, partitions: Collection[int]) -> str:
    return ", ".join(f"{topic}-{number}" for number in partitions)
