"""`ottla groups`: list, describe and delete consumer groups; `group_offsets` has the commands that change offsets."""

from typing import Annotated, Any

import typer

from client.admin.admin import Admin
from client.admin.types import GroupDescription, GroupMember
from client.consumer.offsets import LATEST
from client.errors import GroupNotEmptyError, KafkaError
from client.topic_partition import TopicPartition
from ottla.command_line.failure import CommandError
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer, parse_names
from ottla.command_line.output import print_json, print_table
from ottla.command_line.session import run, unknown_group
from ottla.commands import group_offsets

groups = typer.Typer(help="Consumer groups: their members, offsets and lag.", no_args_is_help=True)

STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead")
TYPES = ("classic", "consumer")
_CONSUMERS = "consumer"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group_offsets.register(groups)
    app.add_typer(groups, name="groups")


@groups.command("list", epilog="Example:  ottla groups list --state stable --state empty")
def list_groups(
    state: Annotated[
        list[str] | None, typer.Option("--state", "-s", metavar="STATE", help="Only groups in this state. Repeatable.")
    ] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", "-t", metavar="TYPE", help="Only this type: classic or consumer. Repeatable."),
    ] = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """List the groups of the cluster."""
    states = parse_names(state or (), STATES, "--state")
    types = parse_names(type_ or (), TYPES, "--type")

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            found = await admin.list_groups(states=states, types=types)
        if as_json:
            keys = ("group", "protocol_type", "state", "type", "coordinator")
            print_json([dict(zip(keys, listing, strict=True)) for listing in found])
            return
        rows = [(one.group_id, one.type or None, one.state or None, one.protocol_type or None) for one in found]
        print_table(("group", "type", "state", "protocol type"), rows)

    run(main())


@groups.command(epilog="Example:  ottla groups describe billing")
def describe(
    names: Annotated[list[str] | None, typer.Argument(help="Groups. Default: all.", metavar="[GROUP...]")] = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Show the members and assignments of groups, and each partition's committed offset, log end offset and lag."""

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            wanted = names or [listing.group_id for listing in await admin.list_groups()]
            described = []
            for name, group in (await admin.describe_groups(wanted)).items():
                if not isinstance(group, KafkaError):
                    described.append(await _document(admin, group))
                elif names:
                    raise await unknown_group(admin, name, group)
        if as_json:
            print_json(described)
            return
        for position, document in enumerate(described):
            if position:
                print()
            _print_description(document)

    run(main())


async def _document(admin: Admin, group: GroupDescription) -> dict[str, Any]:
    committed = await admin.list_group_offsets(group.group_id)
    owners = {partition: member for member in group.members for partition in member.assignment or ()}
    partitions = sorted(committed.keys() | owners.keys())
    ends = await _ends(admin, partitions)
    rows = []
    for partition in partitions:
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


async def _ends(admin: Admin, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
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


def _print_description(group: dict[str, Any]) -> None:
    members, partitions = group["members"], group["partitions"]
    facts = [group["state"], group["type"]]
    if group["protocol_type"] not in ("", _CONSUMERS):
        facts.append(f"protocol {group['protocol_type']}")
    if group["assignor"]:
        facts.append(f"assignor {group['assignor']}")
    facts += [f"{len(members)} member{'s' * (len(members) != 1)}", f"coordinator {group['coordinator']}"]
    print(f"{group['group']}  {', '.join(facts)}")
    if members:
        columns = ("member", "instance", "client", "host", "assignment")
        print_table(
            columns,
            [
                (one["member_id"], one["instance_id"], one["client_id"], one["host"], _assigned(one["assignment"]))
                for one in members
            ],
        )
    if partitions:
        clients = {member["member_id"]: member["client_id"] for member in members}
        keys = ("topic", "partition", "committed_offset", "log_end_offset", "lag")
        rows = [(*(row[key] for key in keys), clients.get(row["member_id"])) for row in partitions]
        print_table(("topic", "partition", "committed", "log end", "lag", "client"), rows)


def _assigned(topics: dict[str, list[int]] | None) -> str | None:
    """Format a member's assignment: "orders:0-3,7 audit:0"."""
    if not topics:
        return None
    return " ".join(f"{topic}:{_ranges(numbers)}" for topic, numbers in topics.items())


def _ranges(numbers: list[int]) -> str:
    """Format sorted numbers, with a hyphen for each run: "0-3,7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


@groups.command(epilog="Example:  ottla groups delete billing")
def delete(
    names: Annotated[list[str], typer.Argument(help="Groups without members.", metavar="GROUP...")],
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Delete groups that have no members, with all their offsets. This cannot be undone."""

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            failures: list[Exception] = []
            for name, error in (await admin.delete_groups(names)).items():
                if error is None:
                    print(f"{name} deleted")
                elif isinstance(error, GroupNotEmptyError):
                    failures.append(CommandError(f"group {name} has members: stop them first"))
                else:
                    failures.append(await unknown_group(admin, name, error))
        if failures:
            raise failures[0]

    run(main())
