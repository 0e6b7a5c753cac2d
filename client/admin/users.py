"""The part of the admin client for SCRAM users (KIP-554). The controller changes them, any broker describes them.

A password is salted here: only the salted password is sent, which is as good as the password for SCRAM. Use TLS.
"""

import asyncio
import secrets
from collections.abc import Iterable

from client.admin.base import AdminBase
from client.errors import KafkaError, error_for
from client.options import refuse
from protocol.error_codes import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from protocol.surrogates import RULE, has_lone_surrogate
from security.sasl.scram import MIN_ITERATIONS, SCRAM_MECHANISMS, SCRAM_SHA_512
from security.secret import HIDDEN

_NAMES = {mechanism.type: name for name, mechanism in SCRAM_MECHANISMS.items()}


class UserAdmin(AdminBase):
    """AlterUserScramCredentials and DescribeUserScramCredentials."""

    async def describe_scram_users(self, users: Iterable[str] | None = None) -> dict[str, dict[str, int] | KafkaError]:
        """The iterations by mechanism of users, or the error of each; without `users` of all that have a credential."""
        wanted = None if users is None else [UserName(name=name) for name in users]

        async def ask() -> dict[str, dict[str, int] | KafkaError]:
            connection = await self._cluster.any_connection()
            request = DescribeUserScramCredentialsRequest(users=wanted)
            response = await connection.call(request, DescribeUserScramCredentialsResponse)
            if response.error_code:
                raise error_for(response.error_code, response.error_message, context="SCRAM users")
            found: dict[str, dict[str, int] | KafkaError] = {}
            for one in response.results:
                if one.error_code:
                    found[one.user] = error_for(one.error_code, one.error_message, context=one.user)
                else:
                    infos = {_NAMES.get(info.mechanism, str(info.mechanism)): info for info in one.credential_infos}
                    found[one.user] = {name: info.iterations for name, info in infos.items()}
            return found

        return await self._cluster.retry(ask, timeout_s=self._timeout_s) if wanted != [] else {}

    async def set_scram_password(
        self,
        user: str,
        password: str,
        mechanisms: Iterable[str] = (SCRAM_SHA_512.name,),
        *,
        iterations: int = MIN_ITERATIONS,
    ) -> None:
        """Create a user, or change its password, for these mechanisms. Raises UnacceptableCredentialError, …"""
        for argument, text in (("user", user), ("password", password)):
            if has_lone_surrogate(text):
                raise refuse(argument, HIDDEN, RULE)
        upsertions = []
        for name in mechanisms:
            mechanism = SCRAM_MECHANISMS[name]
            salt = secrets.token_bytes(20)
            salted = await asyncio.to_thread(mechanism.salted_password, password, salt, iterations)
            upsertions.append(
                ScramCredentialUpsertion(
                    name=user, mechanism=mechanism.type, iterations=iterations, salt=salt, salted_password=salted
                )
            )
        await self._alter_user(user, AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions))

    async def delete_scram_credentials(self, user: str, mechanisms: Iterable[str]) -> None:
        """Delete a user's credentials for these mechanisms. Raises ResourceNotFoundError if it lacks one."""
        deletions = [ScramCredentialDeletion(name=user, mechanism=SCRAM_MECHANISMS[name].type) for name in mechanisms]
        await self._alter_user(user, AlterUserScramCredentialsRequest(deletions=deletions, upsertions=[]))

    async def _alter_user(self, user: str, request: AlterUserScramCredentialsRequest) -> None:
        async def ask() -> None:
            connection = await self._cluster.controller()
            response = await connection.call(request, AlterUserScramCredentialsResponse)
            for result in response.results:
                if result.error_code == ErrorCode.NOT_CONTROLLER:
                    await self._cluster.refresh([])
                if result.error_code:
                    raise error_for(result.error_code, result.error_message, context=user)

        await self._cluster.retry(ask, timeout_s=self._timeout_s)
