"""`ottla quotas`: what users, client ids and addresses may use."""

from dataclasses import dataclass
from typing import Annotated

import typer

from client.admin.quotas import DEFAULT, Name, QuotaEntity, Special, label
from ottla.command_line.clients import Admin
from ottla.command_line.failure import CommandError
from ottla.command_line.option_groups import with_option_groups
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer, parse_pairs
from ottla.command_line.output import print_json, print_table
from ottla.command_line.session import run

quotas = typer.Typer(help="Show and change the quotas of users, client ids and addresses.", no_args_is_help=True)

CLIENT_QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
ADDRESS_QUOTAS = ("connection_creation_rate",)


@dataclass(frozen=True)
class Selection:
    """The options that select users, client ids and addresses."""

    user: Annotated[str | None, typer.Option("--user", "-u", help="Quotas of this user.")] = None
    user_default: Annotated[bool, typer.Option("--user-default", help="Of every user without quotas of its own.")] = (
        False
    )
    client_id: Annotated[
        str | None, typer.Option("--client-id", help="Quotas of this client id; with --user, only of that user.")
    ] = None
    client_id_default: Annotated[
        bool, typer.Option("--client-id-default", help="Of every client id without its own.")
    ] = False
    ip: Annotated[str | None, typer.Option("--ip", help="Quotas of this address.")] = None
    ip_default: Annotated[bool, typer.Option("--ip-default", help="Of every address without quotas of its own.")] = (
        False
    )

    def entity(self) -> QuotaEntity:
        """Return the entity that the options select, without a name if there are none. Raises CommandError."""
        names: list[Name] = []
        for option, name, is_default in (
            ("--user", self.user, self.user_default),
            ("--client-id", self.client_id, self.client_id_default),
            ("--ip", self.ip, self.ip_default),
        ):
            if name is not None and is_default:
                raise CommandError(f"give {option} or {option}-default, not both")
            names.append(DEFAULT if is_default else name)
        entity = QuotaEntity(*names)
        if entity.ip is not None and entity != QuotaEntity(ip=entity.ip):
            raise CommandError("--ip cannot be combined with --user and --client-id")
        return entity

    def one_entity(self) -> QuotaEntity:
        """Return the entity, of which there must be one. Raises CommandError."""
        entity = self.entity()
        if entity == QuotaEntity():
            raise CommandError("give --user, --client-id or --ip, or one of them with -default")
        return entity


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(quotas, name="quotas")


@quotas.command("list", epilog="Example:  ottla quotas list --user alice")
@with_option_groups
def list_(
    selection: Selection,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Show all quotas, or those of some entities. --user also shows the client ids of that user."""
    wanted = selection.entity()

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            found = await admin.describe_client_quotas(user=wanted.user, client_id=wanted.client_id, ip=wanted.ip)
        rows = sorted(
            ((_document(one), values) for one, values in found.items()),
            key=lambda row: [name or "" for name in row[0].values()],
        )
        if as_json:
            print_json([{**document, "quotas": values} for document, values in rows])
            return
        columns = ("user", "client id", "ip", "quota", "value")
        print_table(
            columns,
            [
                (*(name or "" for name in document.values()), name, f"{value:g}" if value % 1 else int(value))
                for document, values in rows
                for name, value in sorted(values.items())
            ],
        )

    run(main())


@quotas.command(
    "set", epilog="Example:  ottla quotas set producer_byte_rate=1048576 request_percentage=50 --user alice"
)
@with_option_groups
def set_(
    values: Annotated[
        list[str],
        typer.Argument(
            metavar="QUOTA=VALUE",
            help=f"{', '.join(CLIENT_QUOTAS)}; of addresses {ADDRESS_QUOTAS[0]}.",
            autocompletion=lambda: [f"{name}=" for name in (*CLIENT_QUOTAS, *ADDRESS_QUOTAS)],
        ),
    ],
    selection: Selection,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Only check the quotas.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Set quotas of an entity. Its other quotas do not change.

    Rates are bytes, changed partitions or connections a second; request_percentage is percent of one event loop. A
    client has the most specific quota: of its user and client id, of its user, of its client id, of a default.
    """
    entity = selection.one_entity()
    changes: dict[str, float | None] = {
        name: _number(name, text) for name, text in parse_pairs(values, "quota").items()
    }
    _alter(bootstrap_server, entity, changes, validate_only=validate_only)
    print("could be set" if validate_only else f"set for {label(entity)}")


@quotas.command("remove", epilog="Example:  ottla quotas remove producer_byte_rate --user alice")
@with_option_groups
def remove(
    selection: Selection,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="QUOTA",
            help="Only these quotas; by default all.",
            autocompletion=lambda: [*CLIENT_QUOTAS, *ADDRESS_QUOTAS],
        ),
    ] = None,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Remove quotas of an entity: it then has those of the next less specific entity."""
    entity = selection.one_entity()
    known = CLIENT_QUOTAS if entity.ip is None else ADDRESS_QUOTAS
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise CommandError(f"unknown quota {unknown[0]}: quotas of {label(entity)} are {', '.join(known)}")
    _alter(bootstrap_server, entity, dict.fromkeys(names or known), validate_only=False)
    print(f"removed from {label(entity)}")


def _alter(
    bootstrap_server: str, entity: QuotaEntity, changes: dict[str, float | None], *, validate_only: bool
) -> None:
    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            outcomes = await admin.alter_client_quotas({entity: changes}, validate_only=validate_only)
        error = outcomes[entity]
        if error is not None:
            raise error

    run(main())


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CommandError(f"{name}={text} is not a number") from None


def _document(entity: QuotaEntity) -> dict[str, str | None]:
    """Return the names of an entity; a default is "<default>", as in ZooKeeper."""
    return {field: "<default>" if isinstance(name, Special) else name for field, name in entity._asdict().items()}
