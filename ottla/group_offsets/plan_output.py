"""How the commands that change offsets show their plan, and the options for it."""

from typing import Annotated

import typer

from ottla.command_line.output import print_json, print_table
from ottla.command_line.session import say
from ottla.group_offsets.offset_file import format_offsets
from ottla.group_offsets.offset_plan import OffsetPlan

Execute = Annotated[bool, typer.Option("--execute", help="Make the changes; the default is to only show them.")]
Export = Annotated[bool, typer.Option("--export", help="Print the plan as lines for --from-file.")]


def print_plan(plan: OffsetPlan, *, as_json: bool, export: bool, with_group: bool) -> None:
    """Print the notes of a plan on standard error, and its entries as a table, as JSON or as lines for --from-file."""
    for note in dict.fromkeys(plan.notes):
        say(note)
    if export:
        entries = [(entry.group, entry.partition, entry.new) for entry in plan.entries]
        print(format_offsets(entries, with_group=with_group), end="")
    elif as_json:
        keys = ("group", "topic", "partition", "current_offset", "new_offset")
        print_json(
            [
                dict(zip(keys, (entry.group, *entry.partition, entry.current, entry.new), strict=True))
                for entry in plan.entries
            ]
        )
    else:
        rows = [(entry.group, *entry.partition, entry.current, entry.new) for entry in plan.entries]
        print_table(("group", "topic", "partition", "current", "new"), rows)


def say_outcome(plan: OffsetPlan, *, execute: bool) -> None:
    """Say that there was nothing to do, or that --execute makes the changes."""
    if not plan.entries:
        say("there is nothing to do")
    elif not execute:
        say("nothing was changed: use --execute to make the changes")
