"""Assertions about consumer groups, as coroutine functions: `ottla.testing.async_assertions` describes them all."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Unpack

from client.admin.admin import Admin
from client.admin.types import GroupDescription
from client.consumer.group_metadata import OffsetAndMetadata
from client.consumer.offsets import EARLIEST, LATEST
from client.errors import GroupIdNotFoundError, KafkaError
from client.topic_partition import TopicPartition
from client.wire.security_options import SecurityKeywords
from ottla.testing.topic_assertions import Reading, make_reader
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
)

STABLE: Final = "Stable"
EMPTY: Final = "Empty"


async def wait_for_group(
    bootstrap_servers: str | Sequence[str],
    group_id: str,
    *,
    members: int | None = None,
    timeout_s: float = TIMEOUT_S,
    **security: Unpack[SecurityKeywords],
) -> GroupDescription:
    """Wait until a group is stable: its members have their assignments, and none of them joins or leaves.

    `members` is the number of members that it must have (by default, at least one). With `members=0`, wait until the
    group is empty. Both group protocols. Return the group with its members and their partitions.

    Raises AssertionError after `timeout_s` seconds, with the state and the members that there are.
    """
    expected = {
        None: f"group {group_id} is stable",
        0: f"group {group_id} is empty",
    }.get(members, f"group {group_id} is stable with {number_of(members or 0, 'member')}")
    async with closed_after(_admin(bootstrap_servers, security)) as admin:

        async def look() -> GroupDescription:
            group = await _describe(admin, group_id)
            if group is None:
                raise NotYetError(await _missing(admin, group_id))
            if group.state != (EMPTY if members == 0 else STABLE) or members not in (None, len(group.members)):
                raise NotYetError(_shown(group))
            return group

        async with deadline(expected, timeout_s) as seen:
            return await poll(look, seen)


async def wait_for_commit(
    bootstrap_servers: str | Sequence[str],
    group_id: str,
    offsets: Mapping[tuple[str, int], int],
    *,
    timeout_s: float = TIMEOUT_S,
    **security: Unpack[SecurityKeywords],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Wait until a group has committed these offsets, or higher ones; return all its committed offsets.

    The keys of `offsets` are (topic, partition). A committed offset is the offset of the next record: a group that has
    processed the record at offset 4 commits 5.

    Raises AssertionError after `timeout_s` seconds, with the offsets that the group has committed.
    """
    wanted = {TopicPartition(*partition): offset for partition, offset in offsets.items()}
    listed = ", ".join(f"{partition}: {offset}" for partition, offset in wanted.items())
    async with closed_after(_admin(bootstrap_servers, security)) as admin:

        async def look() -> dict[TopicPartition, OffsetAndMetadata]:
            committed = await admin.list_group_offsets(group_id)
            if any(one not in committed or committed[one].offset < offset for one, offset in wanted.items()):
                if not committed and await _describe(admin, group_id) is None:
                    raise NotYetError(await _missing(admin, group_id))
                raise NotYetError(_committed(committed))
            return committed

        async with deadline(f"group {group_id} has committed {listed}", timeout_s) as seen:
            return await poll(look, seen)


async def wait_for_no_lag(
    bootstrap_servers: str | Sequence[str],
    group_id: str,
    *,
    topics: Collection[str] | None = None,
    isolation_level: str = "read_uncommitted",
    timeout_s: float = TIMEOUT_S,
    **security: Unpack[SecurityKeywords],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Wait until a group has committed the ends of its partitions; return all its committed offsets.

    Its partitions are those of `topics`; by default, those that are assigned to a member and those with a committed
    offset. A partition without a committed offset has no lag if it has no records. Offsets without visible records
    (the markers of transactions; aborted records with `isolation_level="read_committed"`) are no lag: most clients do
    not commit them.

    Raises AssertionError after `timeout_s` seconds, with the lag of each partition.
    """
    checked: dict[TopicPartition, tuple[int, int]] = {}
    async with (
        closed_after(_admin(bootstrap_servers, security)) as admin,
        make_reader(bootstrap_servers, isolation_level, security) as reader,
    ):

        async def look() -> dict[TopicPartition, OffsetAndMetadata]:
            lags = _Lags(await admin.list_group_offsets(group_id))
            await lags.measure(
                admin,
                await _partitions(admin, group_id, topics, lags.committed),
                read_committed=isolation_level == "read_committed",
            )
            for partition in lags.behind():
                offsets = lags.offsets_of(partition)
                if checked.get(partition) == offsets:
                    continue  # it has records, as the last look has found
                reading = Reading(partition.topic, {partition: offsets[0]}, {partition: offsets[1]}, count=1)
                await reading.read(reader)
                if reading.records:
                    checked[partition] = offsets
                else:
                    lags.forget(partition)
            if lags.behind():
                raise NotYetError(str(lags))
            return lags.committed

        async with deadline(f"group {group_id} has no lag", timeout_s) as seen:
            return await poll(look, seen)


class _Lags:
    """The committed offsets of a group, and the ends of its partitions."""

    def __init__(self, committed: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self.committed = committed
        self._starts: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}

    async def measure(self, admin: Admin, partitions: Iterable[TopicPartition], *, read_committed: bool) -> None:
        """Look up the ends of partitions, and the starts of those without a commit."""
        names = list(partitions)
        ends = await admin.list_offsets(dict.fromkeys(names, LATEST), read_committed=read_committed)
        starts = await admin.list_offsets(dict.fromkeys(names, EARLIEST))
        self._ends = {one: ends[one].offset for one in names}
        self._starts = {one: starts[one].offset for one in names}

    def offsets_of(self, partition: TopicPartition) -> tuple[int, int]:
        """The offset where the group continues, and the end of the partition."""
        start = self._starts[partition]
        committed = self.committed.get(partition)
        return start if committed is None else max(committed.offset, start), self._ends[partition]

    def behind(self) -> list[TopicPartition]:
        """The partitions whose end is not committed."""
        return [one for one in sorted(self._ends) if self.offsets_of(one)[0] < self.offsets_of(one)[1]]

    def forget(self, partition: TopicPartition) -> None:
        """The partition has no visible record after the committed offset: it has no lag."""
        del self._ends[partition]

    def __str__(self) -> str:
        texts = []
        for one in self.behind():
            start, end = self.offsets_of(one)
            done = f"committed {self.committed[one].offset}" if one in self.committed else "nothing committed"
            texts.append(f"{one}: {done}, end {end}, lag {end - start}")
        return "; ".join(texts)


async def _partitions(
    admin: Admin, group_id: str, topics: Collection[str] | None, committed: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """The partitions whose lag counts. Raises NotYetError if there are none."""
    if topics is not None:
        described = await admin.describe_topics(topics)
        return [TopicPartition(name, number) for name, topic in described.items() for number in topic.partitions]
    group = await _describe(admin, group_id)
    if group is None:
        raise NotYetError(await _missing(admin, group_id))
    if group.members and group.state != STABLE:
        raise NotYetError(_shown(group))
    found = {one for member in group.members for one in member.assignment or ()} | set(committed)
    if not found:
        raise NotYetError(f"no committed offset and no assigned partition; {_shown(group)}")
    return sorted(found)


def _admin(bootstrap_servers: str | Sequence[str], security: SecurityKeywords) -> Admin:
    return Admin(
        bootstrap_servers=bootstrap_servers,
        client_id=CLIENT_ID,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
        default_api_timeout_ms=RETRIES_MS,
        **security,
    )


async def _describe(admin: Admin, group_id: str) -> GroupDescription | None:
    """Describe a group; None if it does not exist. Connects first."""
    await admin.start()
    try:
        return await admin.describe_group(group_id)
    except GroupIdNotFoundError:
        return None


async def _missing(admin: Admin, group_id: str) -> str:
    names: list[str] = []
    with contextlib.suppress(KafkaError):
        names = [listing.group_id for listing in await admin.list_groups()]
    return f"there is no group {group_id}; groups: {', '.join(names) or 'none'}"


def _shown(group: GroupDescription) -> str:
    members = "; ".join(
        f"{member.client_id} ({member.host}) has "
        + (", ".join(map(str, member.assignment or ())) or "no assigned partitions")
        for member in group.members
    )
    listed = f": {members}" if members else ""
    return f"group {group.group_id} is {group.state} with {number_of(len(group.members), 'member')}{listed}"


def _committed(committed: Mapping[TopicPartition, OffsetAndMetadata]) -> str:
    listed = ", ".join(f"{partition}: {one.offset}" for partition, one in committed.items())
    return f"committed {listed}" if listed else "no committed offsets"
