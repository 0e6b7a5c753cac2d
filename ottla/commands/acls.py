"""`ottla acls`: access control lists, with the options of Kafka's `kafka-acls`."""

from collections.abc import Iterable, Sequence
from typing import Annotated

import typer

from client.errors import KafkaError
from ottla.command_line.clients import Admin
from ottla.command_line.confirmation import Yes, confirm
from ottla.command_line.failure import CommandError
from ottla.command_line.option_groups import with_option_groups
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer
from ottla.command_line.output import counted, print_json, print_table
from ottla.command_line.session import run
from ottla.commands.acl_options import Resources, Rights, parse_pattern_type, principals
from security.acls.binding import ANY_NAME, AccessRule, AclBinding, AclFilter, ResourcePattern
from security.acls.types import Operation, PatternType, Permission, ResourceType

acls = typer.Typer(help="Show, add and remove access control lists.", no_args_is_help=True)

Pattern = Annotated[
    str,
    typer.Option(
        "--resource-pattern-type",
        metavar="TYPE",
        help="literal, or prefixed: all names that begin with the given ones. To list and remove, also any, and match:"
        " every pattern that covers a resource of that name.",
    ),
]

_FIELDS = ("resource_type", "name", "pattern_type", "principal", "host", "operation", "permission")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(acls, name="acls")


@acls.command("list", epilog="Example:  ottla acls list --topic orders --resource-pattern-type match")
@with_option_groups
def list_acls(
    resources: Resources,
    pattern: Pattern = "any",
    principal: Annotated[
        list[str] | None, typer.Option("--principal", metavar="User:NAME", help="Only of this user. Repeatable.")
    ] = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """List ACLs: all, or those of some resources and users."""
    pattern_type = parse_pattern_type(pattern)
    named: list[tuple[ResourceType, str | None]] = [*resources.named()] or [(ResourceType.ANY, None)]
    filters = [
        AclFilter(resource_type, name, pattern_type, who)
        for resource_type, name in named
        for who in _or_any(principals(principal))
    ]

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            _print(await _found(admin, filters), as_json=as_json)

    run(main())


@acls.command(epilog="Example:  ottla acls add --allow-principal User:alice --consumer --topic orders --group billing")
@with_option_groups
def add(
    *,
    resources: Resources,
    pattern: Pattern = "literal",
    rights: Rights,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Add ACLs: for each resource, user, address and operation. Print them."""
    pattern_type = parse_pattern_type(pattern)
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise CommandError(f"--resource-pattern-type {pattern}: an ACL is literal or prefixed")
    if not (rights.allow_principal or rights.deny_principal):
        raise CommandError("give --allow-principal or --deny-principal")
    bindings = [
        AclBinding(_pattern(resource_type, name, pattern_type), AccessRule(who, host, one, permission))
        for resource_type, name, one in rights.operations(resources, Operation.ALL)
        for permission, users, hosts in rights.users()
        for who in users
        for host in hosts or [ANY_NAME]
    ]

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            outcomes = await admin.create_acls(bindings)
        _print([acl for acl, error in outcomes.items() if error is None], as_json=as_json)
        errors = [error for error in outcomes.values() if error is not None]
        if errors:
            raise CommandError(f"{counted(len(errors), 'ACL')} not added, the last error: {errors[-1]}")

    run(main())


@acls.command(epilog="Example:  ottla acls remove --allow-principal User:alice --topic orders")
@with_option_groups
def remove(
    *,
    resources: Resources,
    pattern: Pattern = "literal",
    rights: Rights,
    yes: Yes = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Remove the ACLs of resources: all, or those of some users, addresses and operations. Print them."""
    pattern_type = parse_pattern_type(pattern)
    rules: list[tuple[Permission, str | None, str | None]] = [
        (permission, who, host)
        for permission, users, hosts in rights.users()
        if users or hosts
        for who in _or_any(users)
        for host in _or_any(hosts)
    ] or [(Permission.ANY, None, None)]
    filters = [
        AclFilter(resource_type, name, pattern_type, who, host, one, permission)
        for resource_type, name, one in rights.operations(resources, Operation.ANY)
        for permission, who, host in rules
    ]

    async def count() -> int:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            return len(await _found(admin, filters))

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            outcomes = await admin.delete_acls(filters)
        removed = {acl for one in outcomes.values() if not isinstance(one, KafkaError) for acl in one}
        _print(removed, as_json=as_json)
        errors = [one for one in outcomes.values() if isinstance(one, KafkaError)]
        if errors:
            raise CommandError(f"{counted(len(errors), 'filter')} failed, the last error: {errors[-1]}")

    if not yes:
        confirm(f"Remove {counted(run(count()), 'ACL')}?", yes=yes)
    run(main())


def _or_any(names: Sequence[str]) -> Sequence[str | None]:
    """Return the names for a filter: None selects all."""
    return names or [None]


async def _found(admin: Admin, filters: Iterable[AclFilter]) -> set[AclBinding]:
    return {acl for one in filters for acl in await admin.describe_acls(one)}


def _pattern(resource_type: ResourceType, name: str, pattern_type: PatternType) -> ResourcePattern:
    """Return the pattern; the cluster is always literal, also with `--resource-pattern-type prefixed`."""
    is_cluster = resource_type is ResourceType.CLUSTER
    return ResourcePattern(resource_type, name, PatternType.LITERAL if is_cluster else pattern_type)


def _print(found: Iterable[AclBinding], *, as_json: bool) -> None:
    rows = [
        (
            pattern.resource_type.label,
            pattern.name,
            pattern.pattern_type.name.lower(),
            rule.principal,
            rule.host,
            rule.operation.label,
            rule.permission.label,
        )
        for pattern, rule in sorted(found)
    ]
    if as_json:
        print_json([dict(zip(_FIELDS, row, strict=True)) for row in rows])
    else:
        print_table(("resource", "name", "pattern", "principal", "host", "operation", "permission"), rows)
