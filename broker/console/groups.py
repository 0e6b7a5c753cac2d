"""The groups that this broker coordinates, as JSON: their committed offsets and their lag."""

from __future__ import annotations

from typing import Any

from broker.console.rights import Rights
from broker.coordinator.consumer.group import AnyGroup
from broker.services import Services


def describe_groups(services: Services, rights: Rights) -> list[dict[str, Any]]:
    """Return the groups that the reader may see, sorted by id, with their offsets of topics that it may see.

    The lag is in records, null for partitions without a replica on this broker.
    """
    groups = sorted(services.coordination.groups.all_groups(), key=lambda group: group.group_id)
    return [
        {
            "group_id": group.group_id,
            "type": group.group_type,
            "state": group.state.value,
            "members": len(group.members),
            "offsets": _offsets(services, group, rights),
        }
        for group in groups
        if rights.see_group(group.group_id)
    ]


def _offsets(services: Services, group: AnyGroup, rights: Rights) -> list[dict[str, Any]]:
    found = []
    for (topic, number), committed in sorted(group.offsets.committed.items()):
        if not rights.see_topic(topic):
            continue
        here = services.replicas.partitions.get((topic, number))
        end = None if here is None or here.log is None else here.log.high_watermark
        found.append(
            {
                "topic": topic,
                "partition": number,
                "committed_offset": committed.offset,
                "high_watermark": end,
                # The difference can be negative after an unclean election.
                "lag": None if end is None else max(0, end - committed.offset),
            }
        )
    return found
