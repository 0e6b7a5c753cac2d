"""`ottla groups`: list, describe and delete groups; the other modules of the folder have the other commands."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from client.errors import GroupNotEmptyError, KafkaError
from ottla.command_line.clients import Admin
from ottla.command_line.completion import complete_groups
from ottla.command_line.failure import CommandError, suggest
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer, parse_names
from ottla.command_line.output import print_described, print_json, print_table
from ottla.command_line.session import run, unknown_group
from ottla.commands.groups import offsets, reset, watch
from ottla.commands.groups.description import describe_groups, print_group
from ottla.commands.groups.selection import Names, Regex, named_groups

groups = typer.Typer(help="Consumer groups: their members, offsets and lag.", no_args_is_help=True)

STATES = ("Stable", "Empty", "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling", "Dead")
TYPES = ("classic", "consumer")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    reset.register(groups)
    offsets.register(groups)
    watch.register(groups)
    app.add_typer(groups, name="groups")


@groups.command("list", epilog="Example:  ottla groups list --state stable --state empty --lag")
def list_groups(
    names: Names = None,
    regex: Regex = False,
    state: Annotated[
        list[str] | None, typer.Option("--state", "-s", metavar="STATE", help="Only groups in this state. Repeatable.")
    ] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", "-t", metavar="TYPE", help="Only this type: classic or consumer. Repeatable."),
    ] = None,
    lag: Annotated[bool, typer.Option("--lag", help="Also the number of members and the total lag.")] = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """List the groups of the cluster."""
    states = parse_names(state or (), STATES, "--state")
    types = parse_names(type_ or (), TYPES, "--type")

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            found = await admin.list_groups(states=states, types=types)
            if names or regex:
                selected = await named_groups(admin, names, regex=regex)
                if not (states or types):
                    _check_known(selected, [one.group_id for one in found])
                found = [one for one in found if one.group_id in selected]
            described = await describe_groups(admin, [one.group_id for one in found]) if lag else {}
        keys = ("group", "protocol_type", "state", "type", "coordinator")
        documents: list[dict[str, Any]] = [dict(zip(keys, listing, strict=True)) for listing in found]
        for document in documents if lag else ():
            group = described[document["group"]]
            facts = (None, None) if isinstance(group, KafkaError) else (len(group["members"]), group["total_lag"])
            document["member_count"], document["total_lag"] = facts
        if as_json:
            print_json(documents)
            return
        columns = ("group", "type", "state", "protocol_type", *(("member_count", "total_lag") if lag else ()))
        titles = ("group", "type", "state", "protocol type", *(("members", "total lag") if lag else ()))
        rows = [[None if document[key] == "" else document[key] for key in columns] for document in documents]
        print_table(titles, rows)

    run(main())


def _check_known(names: Sequence[str], known: Sequence[str]) -> None:
    """Raise CommandError for an unknown group, with similar names."""
    for name in names:
        if name not in known:
            raise CommandError(f"unknown group {name}{suggest(name, list(known))}")


@groups.command(epilog="Example:  ottla groups describe billing")
def describe(
    names: Names = None,
    regex: Regex = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Show the members and assignments of groups, each partition's committed offset, log end offset and lag, and the
    total lag.
    """

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            described = []
            for name, group in (await describe_groups(admin, await named_groups(admin, names, regex=regex))).items():
                if not isinstance(group, KafkaError):
                    described.append(group)
                elif names and not regex:  # else the group has been deleted since it was found
                    raise await unknown_group(admin, name, group)
        print_described(described, print_group, as_json=as_json)

    run(main())


@groups.command(epilog="Example:  ottla groups delete billing")
def delete(
    names: Annotated[
        list[str], typer.Argument(help="Groups without members.", metavar="GROUP", autocompletion=complete_groups)
    ],
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
