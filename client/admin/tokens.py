"""The part of the admin client for delegation tokens (KIP-48). Any broker answers.

The client must be authenticated, and not by a token. To log in with a token, use SCRAM with its id as user name and
`password` as password, and the extension `tokenauth=true`.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field

from client.admin.base import AdminBase
from client.errors import UnsupportedApiError, error_for
from protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from security.principal import Principal

_FIRST_VERSION_WITH_OWNER = 3


@dataclass(frozen=True)
class DelegationToken:
    """A token. Times are in ms since 1970. requester: who has created it; None if a broker before 3.3 answers."""

    token_id: str
    hmac: bytes = field(repr=False)
    owner: Principal
    renewers: tuple[Principal, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    requester: Principal | None = None

    @property
    def password(self) -> str:
        """The password for SCRAM."""
        return base64.b64encode(self.hmac).decode()


class TokenAdmin(AdminBase):
    """CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken."""

    async def create_delegation_token(
        self, renewers: Iterable[Principal] = (), *, owner: Principal | None = None, max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """Create a token for the user of this client, or for `owner` (KIP-373). Not retried.

        max_lifetime_ms: -1 for the broker's maximum. Raises UnsupportedApiError if a broker older than 3.3 is asked for
        a token of an owner.
        """
        named = tuple(renewers)
        connection = await self._cluster.any_connection()
        request = CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else owner.type,
            owner_principal_name=None if owner is None else owner.name,
            renewers=[CreatableRenewers(principal_type=one.type, principal_name=one.name) for one in named],
            max_lifetime_ms=max_lifetime_ms,
        )
        version = connection.common_version(CreateDelegationTokenRequest)
        if owner is not None and version < _FIRST_VERSION_WITH_OWNER:
            raise UnsupportedApiError("a broker before Kafka 3.3 creates tokens only for the client's user")
        response = await connection.call(request, CreateDelegationTokenResponse, version)
        if response.error_code:
            raise error_for(response.error_code, context="delegation token")
        return DelegationToken(
            token_id=response.token_id,
            hmac=bytes(response.hmac),
            owner=Principal(response.principal_type, response.principal_name),
            renewers=named,
            issue_timestamp_ms=response.issue_timestamp_ms,
            expiry_timestamp_ms=response.expiry_timestamp_ms,
            max_timestamp_ms=response.max_timestamp_ms,
            requester=_requester(version, response),
        )

    async def renew_delegation_token(self, hmac: bytes, period_ms: int = -1) -> int:
        """Let a token end in `period_ms` from now; -1: the broker's default. Return the new end."""

        async def ask() -> int:
            connection = await self._cluster.any_connection()
            request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
            response = await connection.call(request, RenewDelegationTokenResponse)
            if response.error_code:
                raise error_for(response.error_code, context="delegation token")
            return response.expiry_timestamp_ms

        return await self._cluster.retry(ask, timeout_s=self._timeout_s)

    async def expire_delegation_token(self, hmac: bytes, period_ms: int = -1) -> int:
        """Let a token end in `period_ms` from now; -1: remove it. Return the new end. Not retried."""
        connection = await self._cluster.any_connection()
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        response = await connection.call(request, ExpireDelegationTokenResponse)
        if response.error_code:
            raise error_for(response.error_code, context="delegation token")
        return response.expiry_timestamp_ms

    async def describe_delegation_tokens(self, owners: Iterable[Principal] | None = None) -> list[DelegationToken]:
        """The tokens that this client's user may see; with `owners` those that concern one of them."""
        wanted = None
        if owners is not None:
            wanted = [DescribeDelegationTokenOwner(principal_type=one.type, principal_name=one.name) for one in owners]

        async def ask() -> list[DelegationToken]:
            connection = await self._cluster.any_connection()
            request = DescribeDelegationTokenRequest(owners=wanted)
            version = connection.common_version(DescribeDelegationTokenRequest)
            response = await connection.call(request, DescribeDelegationTokenResponse, version)
            if response.error_code:
                raise error_for(response.error_code, context="delegation tokens")
            return [
                DelegationToken(
                    token_id=one.token_id,
                    hmac=bytes(one.hmac),
                    owner=Principal(one.principal_type, one.principal_name),
                    renewers=tuple(Principal(each.principal_type, each.principal_name) for each in one.renewers),
                    issue_timestamp_ms=one.issue_timestamp,
                    expiry_timestamp_ms=one.expiry_timestamp,
                    max_timestamp_ms=one.max_timestamp,
                    requester=_requester(version, one),
                )
                for one in response.tokens
            ]

        return await self._cluster.retry(ask, timeout_s=self._timeout_s)


def _requester(version: int, answer: CreateDelegationTokenResponse | DescribedDelegationToken) -> Principal | None:
    if version < _FIRST_VERSION_WITH_OWNER:
        return None
    return Principal(answer.token_requester_principal_type, answer.token_requester_principal_name)
