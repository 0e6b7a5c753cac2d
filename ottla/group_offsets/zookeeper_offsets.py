"""Offsets that consumers store in ZooKeeper, at `/consumers/<group>/offsets/<topic>/<partition>`.

Kafka's consumers before 0.9 and consumers with `offsets.storage=zookeeper` store them. Running consumers are registered
at `/consumers/<group>/ids`.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from client.topic_partition import TopicPartition
from ottla.command_line.failure import CommandError, suggest
from registry.errors import NoNodeError
from registry.interface import Registry
from registry.znodes.consumers import ConsumerOffsetZnode

K = TypeVar("K")
ZooKeeperOffsets = dict[TopicPartition, int]


async def read_zookeeper_offsets(registry: Registry, groups: Sequence[str]) -> dict[str, ZooKeeperOffsets]:
    """Return the offsets of these groups, or of all groups that have any, sorted.

    Raises CommandError if a group does not exist or has running consumers, or if a znode contains no offset (the
    message names its path); NoNodeError if `/consumers`, which every Kafka creates, does not exist.
    """
    return await read_groups(registry, groups, _read_group)


async def read_groups(
    registry: Registry, groups: Sequence[str], read: Callable[[Registry, str], Awaitable[dict[K, int]]]
) -> dict[str, dict[K, int]]:
    """Return the result of `read` for these groups, or all non-empty results; raises the errors described above."""
    known = sorted(await registry.children("/consumers"))
    for group in groups:
        if group not in known:
            raise CommandError(f"ZooKeeper has no group {group}{suggest(group, known)}")
    found = {}
    for group in sorted(set(groups)) or known:
        offsets = await read(registry, group)
        if offsets and (running := await children(registry, f"/consumers/{group}/ids")):
            raise CommandError(f"group {group} still has consumers in ZooKeeper ({min(running)}): stop them first")
        if offsets or groups:
            found[group] = offsets
    return found


async def _read_group(registry: Registry, group: str) -> ZooKeeperOffsets:
    top = f"/consumers/{group}/offsets"
    topics = sorted(await children(registry, top))
    numbers = await asyncio.gather(*(children(registry, f"{top}/{topic}") for topic in topics))
    names = []
    for topic, part in zip(topics, numbers, strict=True):
        for number in part:
            if re.fullmatch(r"[0-9]{1,10}", number) is None:
                raise CommandError(f"{top}/{topic}/{number}: {number!r} is not a partition number")
            names.append(TopicPartition(topic, int(number)))
    names.sort()
    return dict(zip(names, await asyncio.gather(*(_read(registry, group, name) for name in names)), strict=True))


async def _read(registry: Registry, group: str, partition: TopicPartition) -> int:
    path = ConsumerOffsetZnode.path(group, *partition)
    offset = ConsumerOffsetZnode.decode((await registry.get(path))[0], path).offset
    if offset < 0:
        raise CommandError(f"{path}: {offset} is not an offset")
    return offset


async def children(registry: Registry, path: str) -> list[str]:
    """Return the children of a znode; an empty list if the znode does not exist."""
    try:
        return await registry.children(path)
    except NoNodeError:
        return []
