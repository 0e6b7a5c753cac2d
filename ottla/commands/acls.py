"""`ottla acls`: access control lists, with the options of Kafka's `kafka-acls`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, NamedTuple

import typer

from client.errors import KafkaError
from ottla.command_line.clients import Admin
from ottla.command_line.completion import complete_groups, complete_topics
from ottla.command_line.confirmation import Yes, confirm
from ottla.command_line.failure import CommandError
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer
from ottla.command_line.output import counted, print_json, print_table
from ottla.command_line.session import run
from security.acls.binding import ANY_NAME, CLUSTER_NAME, AccessRule, AclBinding, AclFilter, ResourcePattern
from security.acls.types import Operation, PatternType, Permission, ResourceType

acls = typer.Typer(help="Show, add and remove access control lists.", no_args_is_help=True)

Topic = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", help='A topic; "*" for all. Repeatable.', autocompletion=complete_topics),
]
Group = Annotated[
    list[str] | None,
    typer.Option("--group", "-g", help='A group; "*" for all. Repeatable.', autocompletion=complete_groups),
]
TransactionalId = Annotated[
    list[str] | None, typer.Option("--transactional-id", metavar="ID", help="A transactional id. Repeatable.")
]
DelegationToken = Annotated[
    list[str] | None, typer.Option("--delegation-token", metavar="ID", help="A delegation token. Repeatable.")
]
User = Annotated[
    list[str] | None,
    typer.Option("--user-principal", metavar="User:NAME", help="A user, for operations on their tokens. Repeatable."),
]
Cluster = Annotated[bool, typer.Option("--cluster", help="The cluster.")]
Pattern = Annotated[
    str,
    typer.Option(
        "--resource-pattern-type",
        metavar="TYPE",
        help="literal, or prefixed: all names that begin with the given ones. To list and remove, also any, and match:"
        " every pattern that covers a resource of that name.",
    ),
]
Operations = Annotated[
    list[str] | None,
    typer.Option("--operation", "-o", metavar="OPERATION", help="Read, Write, Describe, …; All. Repeatable."),
]
AllowPrincipal = Annotated[
    list[str] | None,
    typer.Option("--allow-principal", metavar="User:NAME", help="Allow this user; User:* for all. Repeatable."),
]
DenyPrincipal = Annotated[
    list[str] | None, typer.Option("--deny-principal", metavar="User:NAME", help="Deny this user. Repeatable.")
]
AllowHost = Annotated[
    list[str] | None, typer.Option("--allow-host", metavar="IP", help="Allow only from this address. Repeatable.")
]
DenyHost = Annotated[
    list[str] | None, typer.Option("--deny-host", metavar="IP", help="Deny only from this address. Repeatable.")
]
ForProducer = Annotated[
    bool,
    typer.Option("--producer", help="What a producer needs: Write, Describe and Create on topics, and on its id."),
]
ForConsumer = Annotated[
    bool, typer.Option("--consumer", help="What a consumer needs: Read and Describe on topics, Read on its group.")
]
Idempotent = Annotated[bool, typer.Option("--idempotent", help="With --producer: also IdempotentWrite on the cluster.")]

_FIELDS = ("resource_type", "name", "pattern_type", "principal", "host", "operation", "permission")


class Resources(NamedTuple):
    """The names of the options that select resources."""

    topics: Sequence[str]
    groups: Sequence[str]
    transactional_ids: Sequence[str]
    delegation_tokens: Sequence[str]
    users: Sequence[str]
    cluster: bool

    def named(self) -> Iterator[tuple[ResourceType, str]]:
        """Yield the type and the name of each resource."""
        for resource_type, names in (
            (ResourceType.TOPIC, self.topics),
            (ResourceType.GROUP, self.groups),
            (ResourceType.TRANSACTIONAL_ID, self.transactional_ids),
            (ResourceType.DELEGATION_TOKEN, self.delegation_tokens),
            (ResourceType.USER, self.users),
        ):
            yield from ((resource_type, name) for name in names)
        if self.cluster:
            yield ResourceType.CLUSTER, CLUSTER_NAME


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(acls, name="acls")


@acls.command("list", epilog="Example:  ottla acls list --topic orders --resource-pattern-type match")
def list_acls(
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    delegation_token: DelegationToken = None,
    user_principal: User = None,
    cluster: Cluster = False,
    pattern: Pattern = "any",
    principal: Annotated[
        list[str] | None, typer.Option("--principal", metavar="User:NAME", help="Only of this user. Repeatable.")
    ] = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """List ACLs: all, or those of some resources and users."""
    resources = Resources(
        topic or (), group or (), transactional_id or (), delegation_token or (), user_principal or (), cluster
    )
    users: list[str | None] = [*_principals(principal)] or [None]
    filters = [one._replace(principal=who) for one in _filters(resources, pattern) for who in users]

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            found = {acl for one in filters for acl in await admin.describe_acls(one)}
        _print(found, as_json=as_json)

    run(main())


@acls.command(epilog="Example:  ottla acls add --allow-principal User:alice --consumer --topic orders --group billing")
def add(
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    delegation_token: DelegationToken = None,
    user_principal: User = None,
    cluster: Cluster = False,
    pattern: Pattern = "literal",
    allow_principal: AllowPrincipal = None,
    deny_principal: DenyPrincipal = None,
    allow_host: AllowHost = None,
    deny_host: DenyHost = None,
    operation: Operations = None,
    producer: ForProducer = False,
    consumer: ForConsumer = False,
    idempotent: Idempotent = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Add ACLs: for each resource, user, address and operation. Print them."""
    resources = Resources(
        topic or (), group or (), transactional_id or (), delegation_token or (), user_principal or (), cluster
    )
    pattern_type = _pattern_type(pattern)
    if pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise CommandError(f"--resource-pattern-type {pattern}: an ACL is literal or prefixed")
    if not (allow_principal or deny_principal):
        raise CommandError("give --allow-principal or --deny-principal")
    wanted = list(_wanted(resources, operation, producer=producer, consumer=consumer, idempotent=idempotent))
    if not wanted:
        raise CommandError("give a resource, such as --topic, --group or --cluster")
    bindings = [
        AclBinding(_pattern(resource_type, name, pattern_type), AccessRule(who, host, one, permission))
        for resource_type, name, one in wanted
        for permission, principals, hosts in (
            (Permission.ALLOW, allow_principal, allow_host),
            (Permission.DENY, deny_principal, deny_host),
        )
        for who in _principals(principals)
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
def remove(
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    delegation_token: DelegationToken = None,
    user_principal: User = None,
    cluster: Cluster = False,
    pattern: Pattern = "literal",
    allow_principal: AllowPrincipal = None,
    deny_principal: DenyPrincipal = None,
    allow_host: AllowHost = None,
    deny_host: DenyHost = None,
    operation: Operations = None,
    producer: ForProducer = False,
    consumer: ForConsumer = False,
    idempotent: Idempotent = False,
    yes: Yes = False,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Remove the ACLs of resources: all, or those of some users, addresses and operations. Print them."""
    resources = Resources(
        topic or (), group or (), transactional_id or (), delegation_token or (), user_principal or (), cluster
    )
    wanted: list[tuple[ResourceType, str, Operation]]
    if operation or producer or consumer or idempotent:
        wanted = list(_wanted(resources, operation, producer=producer, consumer=consumer, idempotent=idempotent))
    else:
        wanted = [(resource_type, name, Operation.ANY) for resource_type, name in resources.named()]
    if not wanted:
        raise CommandError("give a resource, such as --topic, --group or --cluster")
    who = [
        *_who(Permission.ALLOW, allow_principal, allow_host),
        *_who(Permission.DENY, deny_principal, deny_host),
    ] or [(Permission.ANY, None, None)]
    pattern_type = _pattern_type(pattern)
    filters = [
        AclFilter(resource_type, name, pattern_type, principal, host, one, permission)
        for resource_type, name, one in wanted
        for permission, principal, host in who
    ]

    async def found() -> set[AclBinding]:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            return {acl for one in filters for acl in await admin.describe_acls(one)}

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            outcomes = await admin.delete_acls(filters)
        removed = {acl for one in outcomes.values() if not isinstance(one, KafkaError) for acl in one}
        _print(removed, as_json=as_json)
        errors = [one for one in outcomes.values() if isinstance(one, KafkaError)]
        if errors:
            raise CommandError(f"{counted(len(errors), 'filter')} failed, the last error: {errors[-1]}")

    if not yes:
        confirm(f"Remove {counted(len(run(found())), 'ACL')}?", yes=yes)
    run(main())


def _who(
    permission: Permission, principals: Sequence[str] | None, hosts: Sequence[str] | None
) -> Iterator[tuple[Permission, str | None, str | None]]:
    """Yield the users and addresses of options with this permission; nothing if there are none."""
    if principals or hosts:
        users: list[str | None] = [*_principals(principals)] or [None]
        addresses: list[str | None] = [*(hosts or ())] or [None]
        yield from ((permission, who, host) for who in users for host in addresses)


def _wanted(
    resources: Resources, operations: Sequence[str] | None, *, producer: bool, consumer: bool, idempotent: bool
) -> Iterator[tuple[ResourceType, str, Operation]]:
    """Yield resources and operations, without repetitions."""
    found: list[tuple[ResourceType, str, Operation]] = []
    if producer or consumer:
        _check_conveniences(resources, operations, producer=producer, consumer=consumer)
    if producer:
        to_topics = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
        for name in resources.topics:
            found += ((ResourceType.TOPIC, name, one) for one in to_topics)
        for name in resources.transactional_ids:
            found += ((ResourceType.TRANSACTIONAL_ID, name, one) for one in (Operation.WRITE, Operation.DESCRIBE))
        if idempotent:
            found.append((ResourceType.CLUSTER, CLUSTER_NAME, Operation.IDEMPOTENT_WRITE))
    if consumer:
        for name in resources.topics:
            found += ((ResourceType.TOPIC, name, one) for one in (Operation.READ, Operation.DESCRIBE))
        found += ((ResourceType.GROUP, name, Operation.READ) for name in resources.groups)
    if not (producer or consumer):
        if idempotent:
            raise CommandError("--idempotent needs --producer")
        for one in _operations(operations) or [Operation.ALL]:
            found += ((resource_type, name, one) for resource_type, name in resources.named())
    yield from dict.fromkeys(found)


def _check_conveniences(
    resources: Resources, operations: Sequence[str] | None, *, producer: bool, consumer: bool
) -> None:
    """Raise CommandError where --producer and --consumer lack something, or do not go with another option."""
    if operations:
        raise CommandError("--producer and --consumer name the operations: leave out --operation")
    if not resources.topics:
        raise CommandError("--producer and --consumer need --topic")
    if consumer and not resources.groups:
        raise CommandError("--consumer needs --group")
    if not consumer and resources.groups:
        raise CommandError("--group goes with --consumer, not with --producer")
    if not producer and resources.transactional_ids:
        raise CommandError("--transactional-id goes with --producer, not with --consumer")
    if resources.cluster or resources.delegation_tokens or resources.users:
        raise CommandError("--producer and --consumer take topics, groups and transactional ids only")


def _filters(resources: Resources, pattern: str) -> list[AclFilter]:
    pattern_type = _pattern_type(pattern)
    named = [AclFilter(resource_type, name, pattern_type) for resource_type, name in resources.named()]
    return named or [AclFilter(pattern_type=pattern_type)]


def _pattern(resource_type: ResourceType, name: str, pattern_type: PatternType) -> ResourcePattern:
    """Return the pattern; the cluster is always literal, also with `--resource-pattern-type prefixed`."""
    is_cluster = resource_type is ResourceType.CLUSTER
    return ResourcePattern(resource_type, name, PatternType.LITERAL if is_cluster else pattern_type)


def _pattern_type(text: str) -> PatternType:
    known = {one.name.lower(): one for one in PatternType if one is not PatternType.UNKNOWN}
    if text.lower() not in known:
        raise CommandError(f"--resource-pattern-type {text!r} must be one of {', '.join(known)}")
    return known[text.lower()]


def _operations(texts: Sequence[str] | None) -> list[Operation]:
    known = {one.label.lower(): one for one in Operation if one not in (Operation.UNKNOWN, Operation.ANY)}
    found: list[Operation] = []
    for text in texts or ():
        plain = text.replace("_", "").replace("-", "").lower()
        if plain not in known:
            raise CommandError(f"--operation {text!r} must be one of {', '.join(one.label for one in known.values())}")
        found.append(known[plain])
    return found


def _principals(texts: Sequence[str] | None) -> list[str]:
    for text in texts or ():
        if ":" not in text:
            raise CommandError(f"the principal {text!r} must be type:name, for example User:{text}")
    return list(texts or ())


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
