"""`ottla groups export-zookeeper`: copy a group's committed offsets to ZooKeeper, for consumers that use it."""

from collections.abc import Awaitable, Callable, Sequence

from client.topic_partition import TopicPartition
from client.zookeeper.layout import Layout, Legacy07Layout, TodaysLayout, partition_names
from client.zookeeper.offset_nodes import Legacy07OffsetNodes, OffsetNodes, TodaysOffsetNodes
from ottla.command_line.clients import Admin
from ottla.command_line.failure import CommandError
from ottla.group_offsets.offset_plan import OffsetPlan
from ottla.group_offsets.zookeeper_offsets import children
from registry.interface import Registry
from registry.znodes.tree import LEGACY_07


async def plan_export(
    registry: Registry, admin: Admin, plan: OffsetPlan, groups: Sequence[str], *, layout: str, overwrite: bool
) -> Callable[[], Awaitable[None]]:
    """Plan the offsets of these groups, and return a function that executes the plan.

    The plan's `current` offsets are those in ZooKeeper. Raises CommandError if a group has consumers in ZooKeeper.
    """
    tree: Layout = Legacy07Layout() if layout == LEGACY_07 else TodaysLayout()
    make_nodes: Callable[[Registry, str], OffsetNodes] = (
        Legacy07OffsetNodes if layout == LEGACY_07 else TodaysOffsetNodes
    )
    for group in groups:
        if running := await children(registry, f"/consumers/{group}/ids"):
            raise CommandError(f"group {group} has consumers in ZooKeeper ({min(running)}): stop them first")
    planned: list[tuple[OffsetNodes, dict[TopicPartition, str], dict[TopicPartition, int]]] = []
    for group in groups:
        committed = await admin.list_group_offsets(group)
        if not committed:
            plan.notes.append(f"{group}: it has no committed offsets")
        known = await partition_names(registry, tree, sorted({partition.topic for partition in committed}))
        nodes = make_nodes(registry, group)
        kept = await nodes.look({partition: known[partition] for partition in committed if partition in known})
        new = {}
        for partition, one in committed.items():
            if partition not in known:
                plan.notes.append(f"{group}: {partition} is not in ZooKeeper, skipped")
            elif partition in kept and not overwrite:
                plan.notes.append(f"{group}: {partition} already has {kept[partition]} in ZooKeeper, not changed")
            else:
                new[partition] = one.offset
                if layout == LEGACY_07:
                    plan.notes.append(f"{group}: {partition} is broker partition {known[partition]} now")
        plan.add(group, kept, new)
        planned.append((nodes, {partition: known[partition] for partition in new}, new))

    async def carry_out() -> None:
        for nodes, names, new in planned:
            await nodes.fetch(names)
            await nodes.commit(new)

    return carry_out
