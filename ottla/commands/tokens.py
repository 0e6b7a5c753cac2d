"""`ottla tokens`: delegation tokens of the user that the command logs in as (KIP-48), or of another one (KIP-373)."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from client.admin.tokens import DelegationToken
from ottla.command_line.clients import Admin
from ottla.command_line.confirmation import Yes, confirm
from ottla.command_line.failure import CommandError, suggest
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, AsJson, BootstrapServer
from ottla.command_line.output import print_json, print_table
from ottla.command_line.session import run
from security.principal import Principal

tokens = typer.Typer(help="Show, create, renew and expire delegation tokens.", no_args_is_help=True)

TokenId = Annotated[str, typer.Argument(metavar="ID", help="The id of the token.")]
Hours = Annotated[float | None, typer.Option("--hours", help="Hours from now; by default the broker's setting.")]
_MS_PER_HOUR = 3_600_000


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(tokens, name="tokens")


@tokens.command("list", epilog="Example:  ottla tokens list --owner User:alice")
def list_tokens(
    owner: Annotated[
        list[str] | None, typer.Option("--owner", metavar="User:NAME", help="Only of this user. Repeatable.")
    ] = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """List the tokens that the user may see, without their passwords."""
    owners = None if not owner else _principals(owner)

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            found = await admin.describe_delegation_tokens(owners)
        if as_json:
            print_json([_fields(token) for token in found])
            return
        rows = [
            (
                token.token_id,
                token.owner,
                str(token.requester or "-"),
                " ".join(map(str, token.renewers)),
                _time(token.expiry_timestamp_ms),
                _time(token.max_timestamp_ms),
            )
            for token in found
        ]
        print_table(("id", "owner", "requester", "renewers", "expires", "latest expiry"), rows)

    run(main())


@tokens.command(epilog="Example:  ottla tokens create --renewer User:scheduler --hours 24")
def create(
    renewer: Annotated[
        list[str] | None,
        typer.Option("--renewer", metavar="User:NAME", help="May renew the token. Repeatable."),
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option(
            "--owner",
            metavar="User:NAME",
            help="Create it for this user: needs CreateTokens on the user.",
        ),
    ] = None,
    hours: Hours = None,
    as_json: AsJson = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Create a token. Print its id and its password: anyone who knows them can log in as the owner."""
    renewers = _principals(renewer or [])
    of_whom = None if owner is None else _principals([owner])[0]

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            token = await admin.create_delegation_token(renewers, owner=of_whom, max_lifetime_ms=_period_ms(hours))
        if as_json:
            print_json(_fields(token) | {"password": token.password})
            return
        if of_whom is not None:
            typer.echo(f"owner     {token.owner}")
        typer.echo(f"id        {token.token_id}")
        typer.echo(f"password  {token.password}")
        typer.echo(f"expires   {_time(token.expiry_timestamp_ms)}")

    run(main())


@tokens.command(epilog="Example:  ottla tokens renew qJs4YCHzREKm5vpxR1eiCw --hours 24")
def renew(token_id: TokenId, hours: Hours = None, bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER) -> None:
    """Let a token expire later, at most at the end of its maximum lifetime."""

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            end_ms = await admin.renew_delegation_token((await _found(admin, token_id)).hmac, _period_ms(hours))
        typer.echo(f"{token_id} expires {_time(end_ms)}")

    run(main())


@tokens.command(epilog="Example:  ottla tokens expire qJs4YCHzREKm5vpxR1eiCw --yes")
def expire(
    token_id: TokenId,
    hours: Annotated[float | None, typer.Option("--hours", help="Hours from now; by default, remove it.")] = None,
    yes: Yes = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Remove a token, or let it expire earlier."""
    confirm(f"{'Remove' if hours is None else 'Shorten the life of'} the token {token_id}?", yes=yes)

    async def main() -> None:
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            end_ms = await admin.expire_delegation_token((await _found(admin, token_id)).hmac, _period_ms(hours))
        typer.echo(f"{token_id} removed" if hours is None else f"{token_id} expires {_time(end_ms)}")

    run(main())


async def _found(admin: Admin, token_id: str) -> DelegationToken:
    found = {token.token_id: token for token in await admin.describe_delegation_tokens()}
    if token_id not in found:
        raise CommandError(f"there is no token {token_id} that the user may see{suggest(token_id, list(found))}")
    return found[token_id]


def _period_ms(hours: float | None) -> int:
    if hours is None:
        return -1
    if not 0 < hours < 1e9:
        raise CommandError(f"--hours {hours:g}: must be more than 0")
    return int(hours * _MS_PER_HOUR)


def _principals(texts: list[str]) -> list[Principal]:
    try:
        return [Principal.parse(text) for text in texts]
    except ValueError as error:
        raise CommandError(str(error)) from None


def _time(timestamp_ms: int) -> str:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _fields(token: DelegationToken) -> dict[str, object]:
    return {
        "id": token.token_id,
        "owner": str(token.owner),
        "requester": None if token.requester is None else str(token.requester),
        "renewers": [str(renewer) for renewer in token.renewers],
        "issued_ms": token.issue_timestamp_ms,
        "expires_ms": token.expiry_timestamp_ms,
        "max_ms": token.max_timestamp_ms,
    }
