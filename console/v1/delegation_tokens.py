"""Delegation tokens (KIP-48). The secret of a token is only in the answer that creates it.

`ottla console` acts as the user that it logs in with. At a broker's own console, a token is for the user who has
logged in there (KIP-373), and never for the user of the brokers; only `ottla tokens` renews and ends it, because
brokers accept that from its owner and its renewers alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Final

from pydantic import Field, StringConstraints

from client.admin.tokens import DelegationToken as Token
from client.errors import KafkaError
from console.rest.call import Call
from console.rest.errors import NOT_AUTHORIZED, RestError, not_found
from console.rest.models import Answer, Asked
from console.rest.operation import ApiOperation, Right
from protocol.error_codes import ErrorCode
from security.acls.types import Operation, ResourceType
from security.principal import Principal

MAX_PERIOD_MS: Final = 2**53 - 1
"""The largest number that JavaScript keeps exactly."""
Period = Annotated[int, Field(ge=1, le=MAX_PERIOD_MS)]
_REFUSED: Final = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: 400,
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: 400,
    ErrorCode.DELEGATION_TOKEN_EXPIRED: 409,
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: 404,
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: 403,
}


class DelegationToken(Answer):
    """A token without its secret. Times are in ms since 1970; it cannot be renewed beyond max_timestamp_ms."""

    token_id: str
    owner: str
    renewers: list[str]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int


class DelegationTokens(Answer):
    """The tokens that the sender may see. may_end: whether this console can renew and end tokens."""

    may_end: bool
    tokens: list[DelegationToken]


class CreatedToken(Answer):
    """A new token. Log in by SCRAM with token_id and this password; it is not answered again."""

    token: DelegationToken
    password: str = Field(repr=False)


class AskedToken(Asked):
    """A token to create. renewers: who may renew and end it besides its owner. max_lifetime_ms: by default the
    longest that the brokers give.
    """

    renewers: Annotated[
        list[Annotated[str, StringConstraints(pattern=r"^User:.+$", max_length=255)]], Field(max_length=100)
    ] = Field(default_factory=list)
    max_lifetime_ms: Period | None = None


class AskedPeriod(Asked):
    """From now; by default, renewing takes the brokers' period, and expiring happens at once."""

    period_ms: Period | None = None


class TokenEnd(Answer):
    """When the token ends, in ms since 1970."""

    expiry_timestamp_ms: int


async def list_tokens(call: Call) -> DelegationTokens:
    """List the delegation tokens that the sender owns, may renew or may describe."""
    found = [_without_secret(one) for one in await _visible(call)]
    return DelegationTokens(
        may_end=_is_own_user(call), tokens=sorted(found, key=lambda one: (one.owner, one.issue_timestamp_ms))
    )


async def create_token(call: Call) -> CreatedToken:
    """Create a delegation token for the sender."""
    asked: AskedToken = call.asked
    owner = None
    if not _is_own_user(call):
        owner = call.rights.user
        if owner is None:
            raise RestError(403, "a token is for the user who has logged in at this console", NOT_AUTHORIZED)
    try:
        made = await call.admin.create_delegation_token(
            [Principal.parse(one) for one in asked.renewers], owner=owner, max_lifetime_ms=asked.max_lifetime_ms or -1
        )
    except KafkaError as error:
        raise _answer(error) from None
    return CreatedToken(token=_without_secret(made), password=made.password)


async def renew_token(call: Call) -> TokenEnd:
    """Let a delegation token end later, at most at its maximum."""
    asked: AskedPeriod = call.asked
    return await _end(call, asked, call.admin.renew_delegation_token)


async def expire_token(call: Call) -> TokenEnd:
    """End a delegation token, now or after a time. Connections that exist stay open."""
    asked: AskedPeriod = call.asked
    return await _end(call, asked, call.admin.expire_delegation_token)


async def _end(call: Call, asked: AskedPeriod, change: Callable[[bytes, int], Awaitable[int]]) -> TokenEnd:
    if not _is_own_user(call):
        raise RestError(403, "brokers accept this from the owner and the renewers: use ottla tokens", NOT_AUTHORIZED)
    wanted = call.text("token_id")
    secret = next((one.hmac for one in await _visible(call) if one.token_id == wanted), None)
    if secret is None:
        raise not_found(f"there is no delegation token {wanted}")
    try:
        return TokenEnd(expiry_timestamp_ms=await change(secret, asked.period_ms or -1))
    except KafkaError as error:
        raise _answer(error) from None


async def _visible(call: Call) -> list[Token]:
    try:
        found = await call.admin.describe_delegation_tokens()
    except KafkaError as error:
        raise _answer(error) from None
    return [one for one in found if _sees(call, one)]


def _sees(call: Call, token: Token) -> bool:
    """Return whether the sender may know of a token, by the rule of DescribeDelegationToken."""
    user, sees = call.rights.user, call.rights.sees
    return (
        (user is not None and user in (token.owner, *token.renewers))
        or sees(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or sees(Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
    )


def _is_own_user(call: Call) -> bool:
    """Return whether the console's login at the brokers is meant for who uses it: not at a broker's own console."""
    return call.services.inside is None


def _without_secret(token: Token) -> DelegationToken:
    return DelegationToken(
        token_id=token.token_id,
        owner=str(token.owner),
        renewers=[str(one) for one in token.renewers],
        issue_timestamp_ms=token.issue_timestamp_ms,
        expiry_timestamp_ms=token.expiry_timestamp_ms,
        max_timestamp_ms=token.max_timestamp_ms,
    )


def _answer(error: KafkaError) -> Exception:
    """Return the answer for what brokers say about tokens."""
    status = None if error.code is None else _REFUSED.get(error.code)
    return error if status is None else RestError(status, str(error))


_SEE: Final = Right(Operation.DESCRIBE)
"""Kafka asks for no right of a user's own tokens. To act, the console must let its user act at all."""
OPERATIONS: Final = (
    ApiOperation("GET", "/delegation-tokens", list_tokens, _SEE, DelegationTokens),
    ApiOperation("POST", "/delegation-tokens", create_token, _SEE, CreatedToken, status=201, takes=AskedToken),
    ApiOperation("POST", "/delegation-tokens/{token_id}/renew", renew_token, _SEE, TokenEnd, takes=AskedPeriod),
    ApiOperation("POST", "/delegation-tokens/{token_id}/expire", expire_token, _SEE, TokenEnd, takes=AskedPeriod),
)
