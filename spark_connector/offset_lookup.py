"""The driver's requests to the cluster: a query's partitions, their start and end offsets, offsets by timestamp."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

from client.admin.admin import Admin
from client.consumer.offsets import EARLIEST as LOOK_UP_EARLIEST
from client.consumer.offsets import LATEST as LOOK_UP_LATEST
from client.errors import KafkaError, error_for
from client.options import refuse
from client.topic_partition import TopicPartition
from client.wire.metadata import TopicMetadata
from protocol.error_codes import ErrorCode
from spark_connector.kafka_options import SECURITY_OPTIONS
from spark_connector.source_options import Bound, SourceOptions
from spark_connector.topic_offsets import EARLIEST, LATEST, Offsets, describe

_ADMIN_OPTIONS: Final = (
    "bootstrap_servers",
    "client_id",
    "default_api_timeout_ms",
    "request_timeout_ms",
    "retry_backoff_max_ms",
    "retry_backoff_ms",
    "socket_connection_setup_timeout_max_ms",
    "socket_connection_setup_timeout_ms",
    *SECURITY_OPTIONS,
)


class OffsetLookup:
    """Looks up the partitions of a query and their offsets; an asynchronous context manager."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        known = {name: value for name, value in options.client.items() if name in _ADMIN_OPTIONS}
        self.admin = Admin(**{"client_id": "ottla-spark-driver", **known})

    async def __aenter__(self) -> "OffsetLookup":
        await self.admin.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.admin.close()

    # ---- partitions

    async def partitions(self, *, must_exist: bool) -> list[TopicPartition]:
        """The subscribed partitions that exist.

        With `must_exist`, raises UnknownTopicOrPartitionError if a named topic or partition does not.
        """
        subscription = self._options.subscription
        if subscription.pattern is not None:
            topics = await self.admin.describe_topics()
            matching = [
                topic
                for topic in topics.values()
                if not topic.is_internal and subscription.pattern.fullmatch(topic.name)
            ]
            return _partitions(matching)
        names = subscription.topics or sorted({name for name, _ in subscription.partitions})
        found = await self._describe(names, must_exist=must_exist)
        existing = _partitions(found)
        if subscription.topics:
            return existing
        for partition in subscription.partitions:
            if must_exist and partition not in existing:
                text = f"option assign: topic {partition.topic} has no partition {partition.partition}"
                raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
        return [partition for partition in subscription.partitions if partition in existing]

    async def _describe(self, names: Iterable[str], *, must_exist: bool) -> list[TopicMetadata]:
        try:
            return list((await self.admin.describe_topics(names)).values())
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            existing = await self.admin.describe_topics()
            missing = sorted(set(names) - set(existing))
            if missing and must_exist:
                text = f"the cluster has no topic {', '.join(missing)}"
                raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text) from None
            return [existing[name] for name in names if name in existing]

    # ---- offsets

    async def earliest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The log start offsets."""
        return await self._list(dict.fromkeys(partitions, LOOK_UP_EARLIEST))

    async def latest(self, partitions: Iterable[TopicPartition]) -> Offsets:
        """The end offsets: high watermarks, or with read_committed the last stable offsets."""
        return await self._list(dict.fromkeys(partitions, LOOK_UP_LATEST))

    async def latest_after(self, known: Offsets) -> Offsets:
        """The end offsets of the partitions that are subscribed to now.

        The request is repeated, up to fetchOffset.numRetries times, while an end offset is below the known offset: a
        leader that was just elected may have an old high watermark.
        """
        for attempt in range(self._options.offset_retries + 1):
            if attempt:
                await asyncio.sleep(self._options.offset_retry_interval_ms / 1000)
            try:
                found = await self.latest(await self.partitions(must_exist=False))
            except KafkaError as error:
                # The topic was deleted between the two requests.
                if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION or attempt == self._options.offset_retries:
                    raise
                continue
            if all(found.get(partition, -1) >= offset for partition, offset in known.items()):
                break
        return found

    async def resolve(self, bound: Bound, partitions: list[TopicPartition], *, is_end: bool = False) -> Offsets:
        """The offsets where reading begins or ends in these partitions.

        Raises InvalidOptionError if offsets by partition do not name exactly these partitions, or if no record is at or
        after a timestamp and the strategy for this case is error.
        """
        if bound.kind == "earliest":
            return await self.earliest(partitions)
        if bound.kind == "latest":
            return await self.latest(partitions)
        if bound.kind == "time":
            return await self._by_time(bound, dict.fromkeys(partitions, bound.number), is_end=is_end)
        _check_all(bound, partitions)
        if bound.kind == "times":
            return await self._by_time(bound, dict(bound.numbers), is_end=is_end)
        asked = {partition: number for partition, number in bound.numbers.items() if number in (EARLIEST, LATEST)}
        return dict(bound.numbers) | await self._list(asked)

    async def at_or_after(self, times: dict[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The offset of the first record at or after a timestamp in ms; None if there is none."""
        found = await self._list(times)
        return {partition: offset if offset >= 0 else None for partition, offset in found.items()}

    async def _by_time(self, bound: Bound, times: dict[TopicPartition, int], *, is_end: bool) -> Offsets:
        found = await self.at_or_after(times)
        later = [partition for partition, offset in found.items() if offset is None]
        if later and not (is_end or self._options.no_match_is_latest):
            names = ", ".join(map(str, sorted(later)))
            rule = "no record is at or after this time: startingOffsetsByTimestampStrategy=latest begins at the end"
            raise refuse(bound.option, {str(name): times[name] for name in sorted(later)}, f"in {names} {rule}")
        ends = await self.latest(later)
        return {partition: ends[partition] if offset is None else offset for partition, offset in found.items()}

    async def _list(self, wanted: dict[TopicPartition, int]) -> Offsets:
        if not wanted:
            return {}
        found = await self.admin.list_offsets(wanted, read_committed=self._options.read_committed)
        return {partition: found[partition].offset for partition in wanted}


def _partitions(topics: Iterable[TopicMetadata]) -> list[TopicPartition]:
    return sorted(TopicPartition(topic.name, number) for topic in topics for number in topic.partitions)


def _check_all(bound: Bound, partitions: list[TopicPartition]) -> None:
    if set(bound.numbers) != set(partitions):
        there_are: dict[str, Any] = dict.fromkeys(map(str, partitions))
        raise refuse(
            bound.option,
            describe(bound.numbers),
            f"must name exactly the partitions that are read: {', '.join(there_are) or 'there are none'}",
        )
