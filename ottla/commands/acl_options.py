"""The options of `ottla acls`: which resources, and who may do what with them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from ottla.command_line.completion import complete_groups, complete_topics
from ottla.command_line.failure import CommandError
from security.acls.binding import CLUSTER_NAME
from security.acls.types import Operation, PatternType, Permission, ResourceType

Wanted = tuple[ResourceType, str, Operation]
"""An operation on a resource: its type, its name."""


@dataclass(frozen=True)
class Resources:
    """The options that select resources."""

    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", help='A topic; "*" for all. Repeatable.', autocompletion=complete_topics),
    ] = None
    group: Annotated[
        list[str] | None,
        typer.Option("--group", "-g", help='A group; "*" for all. Repeatable.', autocompletion=complete_groups),
    ] = None
    transactional_id: Annotated[
        list[str] | None, typer.Option("--transactional-id", metavar="ID", help="A transactional id. Repeatable.")
    ] = None
    delegation_token: Annotated[
        list[str] | None, typer.Option("--delegation-token", metavar="ID", help="A delegation token. Repeatable.")
    ] = None
    user_principal: Annotated[
        list[str] | None,
        typer.Option(
            "--user-principal", metavar="User:NAME", help="A user, for operations on their tokens. Repeatable."
        ),
    ] = None
    cluster: Annotated[bool, typer.Option("--cluster", help="The cluster.")] = False

    def named(self) -> Iterator[tuple[ResourceType, str]]:
        """Yield the type and the name of each resource."""
        for resource_type, names in (
            (ResourceType.TOPIC, self.topic),
            (ResourceType.GROUP, self.group),
            (ResourceType.TRANSACTIONAL_ID, self.transactional_id),
            (ResourceType.DELEGATION_TOKEN, self.delegation_token),
            (ResourceType.USER, self.user_principal),
        ):
            yield from ((resource_type, name) for name in names or ())
        if self.cluster:
            yield ResourceType.CLUSTER, CLUSTER_NAME


@dataclass(frozen=True)
class Rights:
    """The options that say who may do what with resources."""

    allow_principal: Annotated[
        list[str] | None,
        typer.Option("--allow-principal", metavar="User:NAME", help="Allow this user; User:* for all. Repeatable."),
    ] = None
    deny_principal: Annotated[
        list[str] | None, typer.Option("--deny-principal", metavar="User:NAME", help="Deny this user. Repeatable.")
    ] = None
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", metavar="IP", help="Allow only from this address. Repeatable.")
    ] = None
    deny_host: Annotated[
        list[str] | None, typer.Option("--deny-host", metavar="IP", help="Deny only from this address. Repeatable.")
    ] = None
    operation: Annotated[
        list[str] | None,
        typer.Option("--operation", "-o", metavar="OPERATION", help="Read, Write, Describe, …; All. Repeatable."),
    ] = None
    producer: Annotated[
        bool,
        typer.Option(
            "--producer",
            help="What a producer needs: Write, Describe and Create on topics; Write and Describe on its id.",
        ),
    ] = False
    consumer: Annotated[
        bool, typer.Option("--consumer", help="What a consumer needs: Read and Describe on topics, Read on its group.")
    ] = False
    idempotent: Annotated[
        bool, typer.Option("--idempotent", help="With --producer: also IdempotentWrite on the cluster.")
    ] = False

    def users(self) -> Iterator[tuple[Permission, Sequence[str], Sequence[str]]]:
        """Yield the users and the addresses of each permission. Raises CommandError for a malformed user."""
        yield Permission.ALLOW, principals(self.allow_principal), self.allow_host or ()
        yield Permission.DENY, principals(self.deny_principal), self.deny_host or ()

    def operations(self, resources: Resources, default: Operation) -> list[Wanted]:
        """Return the operations on each resource, without repetitions; `default` if the options name none.

        Raises CommandError for options that do not go together, and if there is no resource.
        """
        found: list[Wanted] = []
        if self.producer or self.consumer:
            self._check_conveniences(resources)
        elif self.idempotent:
            raise CommandError("--idempotent needs --producer")
        else:
            for one in _operations(self.operation) or [default]:
                found += ((resource_type, name, one) for resource_type, name in resources.named())
        if self.producer:
            for name in resources.topic or ():
                to_topics = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
                found += ((ResourceType.TOPIC, name, one) for one in to_topics)
            for name in resources.transactional_id or ():
                found += ((ResourceType.TRANSACTIONAL_ID, name, one) for one in (Operation.WRITE, Operation.DESCRIBE))
            if self.idempotent:
                found.append((ResourceType.CLUSTER, CLUSTER_NAME, Operation.IDEMPOTENT_WRITE))
        if self.consumer:
            for name in resources.topic or ():
                found += ((ResourceType.TOPIC, name, one) for one in (Operation.READ, Operation.DESCRIBE))
            found += ((ResourceType.GROUP, name, Operation.READ) for name in resources.group or ())
        if not found:
            raise CommandError("give a resource, such as --topic, --group or --cluster")
        return list(dict.fromkeys(found))

    def _check_conveniences(self, resources: Resources) -> None:
        """Raise CommandError if --producer and --consumer lack something, or do not go with another option."""
        if self.operation:
            raise CommandError("--producer and --consumer name the operations: leave out --operation")
        if not resources.topic:
            raise CommandError("--producer and --consumer need --topic")
        if self.consumer and not resources.group:
            raise CommandError("--consumer needs --group")
        if not self.consumer and resources.group:
            raise CommandError("--group goes with --consumer, not with --producer")
        if not self.producer and resources.transactional_id:
            raise CommandError("--transactional-id goes with --producer, not with --consumer")
        if resources.cluster or resources.delegation_token or resources.user_principal:
            raise CommandError("--producer and --consumer take topics, groups and transactional ids only")


def parse_pattern_type(text: str) -> PatternType:
    """Return the value of --resource-pattern-type. Raises CommandError."""
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


def principals(texts: Sequence[str] | None) -> list[str]:
    """Return the principals of an option. Raises CommandError for one without a type."""
    for text in texts or ():
        if ":" not in text:
            raise CommandError(f"the principal {text!r} must be type:name, for example User:{text}")
    return list(texts or ())
