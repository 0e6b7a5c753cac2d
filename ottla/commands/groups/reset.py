"""`ottla groups reset-offsets`: set the committed offsets of groups. It only shows the changes without `--execute`."""

import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from client.errors import KafkaError
from ottla.command_line.clients import Admin
from ottla.command_line.completion import complete_groups
from ottla.command_line.durations import parse_duration
from ottla.command_line.failure import CommandError
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer, parse_time, parse_topics
from ottla.command_line.session import run
from ottla.commands.groups.selection import Topics
from ottla.group_offsets.offset_file import read_offsets
from ottla.group_offsets.offset_plan import EMPTY, Goal, OffsetPlan, plan_reset, plan_rows
from ottla.group_offsets.plan_output import Execute, Export, print_plan, say_outcome

_CONSUMERS = ("", "consumer")
"""Protocol types of groups that have offsets: "" is that of offsets which were committed without a group."""


Groups = Annotated[
    list[str] | None,
    typer.Argument(help="Groups without members.", metavar="GROUP", autocompletion=complete_groups),
]
ToTimestamp = Annotated[
    str | None,
    typer.Option(
        "--to-timestamp",
        "--to-datetime",
        metavar="TIME",
        help="To the first record since (ms, or 2026-11-21T08:00; local time if no zone is given).",
    ),
]
ByDuration = Annotated[
    str | None,
    typer.Option("--by-duration", metavar="DURATION", help="To the first record since this long ago: 1h, PT1H."),
]
FromFile = Annotated[
    Path | None,
    typer.Option(
        "--from-file",
        metavar="FILE",
        help="To the offsets in this file. Columns: group (optional), topic, partition, offset.",
    ),
]


class _Target(NamedTuple):
    """What a reset sets the offsets to: a goal, and its offset, time in ms or number of offsets."""

    goal: Goal
    value: int = 0


def register(groups: typer.Typer) -> None:
    """Add the command."""
    groups.command(
        "reset-offsets", epilog="Example:  ottla groups reset-offsets billing --topic orders --by-duration 1h --execute"
    )(reset_offsets)


def reset_offsets(
    names: Groups = None,
    all_groups: Annotated[bool, typer.Option("--all-groups", help="All groups that have no members.")] = False,
    topic: Topics = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All partitions with committed offsets of the group.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the start of the log.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end of the log.")] = False,
    to_current: Annotated[bool, typer.Option("--to-current", help="To the committed offset, or the end.")] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", min=0, help="To this offset.")] = None,
    to_timestamp: ToTimestamp = None,
    by_duration: ByDuration = None,
    shift_by: Annotated[int | None, typer.Option("--shift-by", help="Forward by N, or backward by -N.")] = None,
    from_file: FromFile = None,
    execute: Execute = False,
    export: Export = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Set the offsets of groups that have no members. Without --execute it only shows the changes."""
    plan = OffsetPlan()
    texts = {Goal.TIME: to_timestamp, Goal.DURATION: by_duration}
    chosen = {
        Goal.EARLIEST: 0 if to_earliest else None,
        Goal.LATEST: 0 if to_latest else None,
        Goal.CURRENT: 0 if to_current else None,
        Goal.OFFSET: to_offset,
        **{goal: None if text is None else _time(text, goal, plan.notes) for goal, text in texts.items()},
        Goal.SHIFT: shift_by,
    }
    targets = [_Target(goal, value) for goal, value in chosen.items() if value is not None]
    if len(targets) + (from_file is not None) != 1:
        raise CommandError(f"give one of {', '.join(goal.value for goal in chosen)} and --from-file")
    if (topic is not None) + all_topics + (from_file is not None) != 1:
        raise CommandError("give one of --topic and --all-topics, or --from-file alone")
    if bool(names) == all_groups:
        raise CommandError("give either groups or --all-groups")
    if export and as_json:
        raise CommandError("--export and --json cannot be used together")
    scope = None if topic is None else parse_topics(topic, "--topic")

    async def main() -> int:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            wanted = await _inactive_groups(admin, plan) if all_groups else list(dict.fromkeys(names or ()))
            await _fill(admin, plan, wanted, scope, targets, from_file)
            if execute:
                await plan.carry_out(admin)
        return len(wanted)

    count = run(main())
    print_plan(plan, as_json=as_json, export=export, with_group=count > 1 or all_groups)
    say_outcome(plan, execute=execute)


def _time(text: str, goal: Goal, notes: list[str]) -> int:
    """Return the time of --to-timestamp or --by-duration in ms; unless it is given in ms, note it with its zone."""
    if goal is Goal.DURATION:
        found = max(time.time_ns() // 1_000_000 - parse_duration(text, goal.value), 0)
    else:
        found = parse_time(text, goal.value)
    if re.fullmatch(r"\d+", text) is None:
        notes.append(f"to the first record since {datetime.fromtimestamp(found / 1000).astimezone().isoformat()}")
    return found


async def _inactive_groups(admin: Admin, plan: OffsetPlan) -> list[str]:
    """Return the groups of consumers that have no members; the other groups are noted."""
    groups = [one.group_id for one in await admin.list_groups() if one.protocol_type in _CONSUMERS]
    found = []
    for name, group in (await admin.describe_groups(groups)).items():
        if isinstance(group, KafkaError):
            plan.notes.append(f"group {name}: {group}, skipped")
        elif group.state != EMPTY:
            plan.notes.append(f"group {name} is {group.state}, skipped")
        else:
            found.append(name)
    return found


async def _fill(
    admin: Admin,
    plan: OffsetPlan,
    groups: Sequence[str],
    scope: Mapping[str, list[int] | None] | None,
    targets: Sequence[_Target],
    from_file: Path | None,
) -> None:
    """Plan the new offsets of the groups. Raises CommandError if a group has members."""
    rows = [] if from_file is None else read_offsets(from_file)
    await plan.require_inactive(admin, groups)
    if from_file is not None:
        await plan_rows(admin, plan, groups, rows, from_file)
    for target in targets:
        for group in groups:
            await plan_reset(admin, plan, group, scope, *target)
