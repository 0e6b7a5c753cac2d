"""AlterUserScramCredentials: set and delete the SCRAM credentials of users (KIP-554). The controller answers."""

from __future__ import annotations

from broker.authentication.scram_changes import Result, alter_credentials
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


class AlterUserScramCredentialsHandler(Handler[AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse]):
    """Changes credentials in the registry; every broker sees the notifications."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(
        self, request: AlterUserScramCredentialsRequest, context: RequestContext
    ) -> AlterUserScramCredentialsResponse:
        """See the module docstring."""
        self._services.acting_controller()
        results = await alter_credentials(self._services.configs.entities, request.deletions, request.upsertions)
        return _response(results)

    def failed(self, request: AlterUserScramCredentialsRequest, code: ErrorCode) -> AlterUserScramCredentialsResponse:
        """Return the answer with the error for every user."""
        users = [one.name for one in request.deletions] + [one.name for one in request.upsertions]
        return _response(dict.fromkeys(users, Result(code, code.name)))


def _response(results: dict[str, Result]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=result.code, error_message=result.message)
            for user, result in results.items()
        ]
    )
