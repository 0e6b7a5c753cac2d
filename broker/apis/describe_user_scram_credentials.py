"""DescribeUserScramCredentials: which SCRAM credentials users have, without keys (KIP-554)."""

from __future__ import annotations

from collections import Counter

from broker.authentication.scram_changes import NO_NAME
from broker.authentication.scram_credentials import credentials_in, user_of, user_path
from broker.requests.context import RequestContext
from broker.requests.handler import Handler
from broker.services import Services
from protocol.error_codes import ErrorCode
from protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from security.sasl.scram import SCRAM_MECHANISMS, ScramCredential


class DescribeUserScramCredentialsHandler(
    Handler[DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse]
):
    """Reads the registry."""

    __slots__ = ("_services",)

    def __init__(self, services: Services) -> None:
        self._services = services

    async def handle(
        self, request: DescribeUserScramCredentialsRequest, context: RequestContext
    ) -> DescribeUserScramCredentialsResponse:
        """Describe the named users; all that have credentials if none is named."""
        entities = self._services.configs.entities
        results = []
        if not request.users:
            for path, config in (await entities.read_all()).items():
                user = user_of(path)
                if user is not None and (found := credentials_in(config, user)):
                    results.append(_described(user, found))
            results.sort(key=lambda result: result.user)
        for name, times in Counter(user.name for user in request.users or []).items():
            if not name:
                results.append(_error(name, ErrorCode.RESOURCE_NOT_FOUND, NO_NAME))
            elif times > 1:
                text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
                results.append(_error(name, ErrorCode.DUPLICATE_RESOURCE, text))
            elif found := credentials_in(await entities.read(user_path(name)), name):
                results.append(_described(name, found))
            else:
                text = f"Attempt to describe a user credential that does not exist: {name}"
                results.append(_error(name, ErrorCode.RESOURCE_NOT_FOUND, text))
        return DescribeUserScramCredentialsResponse(error_message="", results=results)

    def failed(
        self, request: DescribeUserScramCredentialsRequest, code: ErrorCode
    ) -> DescribeUserScramCredentialsResponse:
        """Return the answer with the error."""
        return DescribeUserScramCredentialsResponse(error_code=code, error_message=code.name)


def _described(user: str, found: dict[str, ScramCredential]) -> DescribeUserScramCredentialsResult:
    infos = [
        CredentialInfo(mechanism=SCRAM_MECHANISMS[name].type, iterations=credential.iterations)
        for name, credential in found.items()
    ]
    return DescribeUserScramCredentialsResult(user=user, error_message="", credential_infos=infos)


def _error(user: str, code: ErrorCode, message: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=user, error_code=code, error_message=message)
