"""Which groups `ottla groups` selects, by name or by regular expression, and which of their topics."""

from collections.abc import Sequence
from typing import Annotated

import typer

from ottla.command_line.clients import Admin
from ottla.command_line.completion import complete_groups, complete_topics
from ottla.command_line.failure import CommandError
from ottla.records.record_filter import compile_expression

Names = Annotated[
    list[str] | None,
    typer.Argument(help="Groups. Default: all.", metavar="GROUP", autocompletion=complete_groups),
]
Regex = Annotated[
    bool,
    typer.Option("--regex", "-r", help="GROUP is a regular expression (Python's) that matches the whole name."),
]

Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC[:0,1,2]",
        help="A topic, or some of its partitions. Repeatable.",
        autocompletion=complete_topics,
    ),
]


async def named_groups(admin: Admin, names: Sequence[str] | None, *, regex: bool) -> list[str]:
    """Return these groups, the groups that match one of the regular expressions, or all groups of the cluster.

    Names are not looked up: their coordinators can answer while another broker cannot. Raises CommandError for an
    expression that matches no group.
    """
    if regex and not names:
        raise CommandError("--regex needs a regular expression: give it in place of GROUP")
    if names and not regex:
        return list(dict.fromkeys(names))
    known = [listing.group_id for listing in await admin.list_groups()]
    expressions = [compile_expression(name, "--regex") for name in names or ()]
    for expression in expressions:
        if not any(expression.fullmatch(name) for name in known):
            raise CommandError(f"no group matches {expression.pattern!r}")
    return [name for name in known if not names or any(expression.fullmatch(name) for expression in expressions)]
