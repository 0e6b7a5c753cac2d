"""Groups with their members, committed offsets and lag, as documents and as text."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from client.admin.types import GroupDescription, GroupMember
from client.consumer.group_metadata import OffsetAndMetadata
from client.consumer.offsets import LATEST
from client.errors import KafkaError
from client.topic_partition import TopicPartition
from ottla.command_line.clients import Admin
from ottla.command_line.output import counted, number_ranges, print_table

_CONSUMERS = "consumer"


async def describe_groups(admin: Admin, names: Iterable[str]) -> dict[str, dict[str, Any] | KafkaError]:
    """Return the document (`groups describe --json`) or the error of each group."""
    found = await admin.describe_groups(names)
    committed = {
        name: await admin.list_group_offsets(name) for name, group in found.items() if not isinstance(group, KafkaError)
    }
    partitions = {partition for offsets in committed.values() for partition in offsets}
    for group in found.values():
        if not isinstance(group, KafkaError):
            partitions.update(partition for member in group.members for partition in member.assignment or ())
    ends = await _ends(admin, sorted(partitions))
    return {
        name: group if isinstance(group, KafkaError) else _document(group, committed[name], ends)
        for name, group in found.items()
    }


def _document(
    group: GroupDescription, committed: Mapping[TopicPartition, OffsetAndMetadata], ends: Mapping[TopicPartition, int]
) -> dict[str, Any]:
    owners = {partition: member for member in group.members for partition in member.assignment or ()}
    rows = []
    for partition in sorted(committed.keys() | owners.keys()):
        offset, end, owner = committed.get(partition), ends.get(partition), owners.get(partition)
        rows.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committed_offset": None if offset is None else offset.offset,
                "committed_leader_epoch": None if offset is None or offset.leader_epoch < 0 else offset.leader_epoch,
                "metadata": None if offset is None else offset.metadata,
                "log_end_offset": end,
                "lag": None if offset is None or end is None else end - offset.offset,
                "member_id": None if owner is None else owner.member_id,
            }
        )
    return {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "total_lag": sum(row["lag"] or 0 for row in rows),
        "members": [_member(member) for member in group.members],
        "partitions": rows,
    }


def _member(member: GroupMember) -> dict[str, Any]:
    topics: dict[str, list[int]] = {}
    for topic, number in member.assignment or ():
        topics.setdefault(topic, []).append(number)
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "assignment": None if member.assignment is None else topics,
    }


async def _ends(admin: Admin, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the log end offsets of those partitions that exist and have a leader."""
    known = await admin.describe_topics() if partitions else {}
    led = [
        partition
        for partition in partitions
        if partition.topic in known
        and (one := known[partition.topic].partitions.get(partition.partition)) is not None
        and one.leader >= 0
    ]
    found = await admin.list_offsets(dict.fromkeys(led, LATEST)) if led else {}
    return {partition: one.offset for partition, one in found.items()}


def print_group(group: Mapping[str, Any], file: TextIO | None = None) -> None:
    """Print a document as text, on standard output or in `file`.

    Rates (`committed_per_second` and `produced_per_second`) are shown if the document has them.
    """
    members, partitions = group["members"], group["partitions"]
    print(f"{group['group']}  {', '.join(_facts(group))}", file=file or sys.stdout)
    if members:
        columns = ("member", "instance", "client", "host", "assignment")
        print_table(
            columns,
            [
                (one["member_id"], one["instance_id"], one["client_id"], one["host"], _assigned(one["assignment"]))
                for one in members
            ],
            file=file,
        )
    if partitions:
        clients = {member["member_id"]: member["client_id"] for member in members}
        keys = ["topic", "partition", "committed_offset", "log_end_offset", "lag"]
        titles = ["topic", "partition", "committed", "log end", "lag"]
        if "committed_per_second" in group:
            keys += ["committed_per_second", "produced_per_second"]
            titles += ["committed/s", "produced/s"]
        rows = [(*(row[key] for key in keys), clients.get(row["member_id"])) for row in partitions]
        print_table((*titles, "client"), rows, file=file)


def _facts(group: Mapping[str, Any]) -> list[str]:
    facts = [group["state"], group["type"]]
    if group["protocol_type"] not in ("", _CONSUMERS):
        facts.append(f"protocol {group['protocol_type']}")
    if group["assignor"]:
        facts.append(f"assignor {group['assignor']}")
    facts += [counted(len(group["members"]), "member"), f"total lag {group['total_lag']}"]
    if group.get("committed_per_second") is not None:
        facts.append(f"{group['committed_per_second']}/s committed, {group['produced_per_second']}/s produced")
    return [*facts, f"coordinator {group['coordinator']}"]


def _assigned(topics: Mapping[str, Sequence[int]] | None) -> str | None:
    """Format a member's assignment: "orders:0-3,7 audit:0"."""
    if not topics:
        return None
    return " ".join(f"{topic}:{number_ranges(numbers)}" for topic, numbers in topics.items())
