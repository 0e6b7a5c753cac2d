"""Whether the cluster has users, ACLs, quotas and delegation tokens. Pages ask before they ask for a list."""

from __future__ import annotations

from typing import Final

from client.errors import ApiNotServedError, KafkaError
from console.rest.call import Call
from console.rest.models import Answer
from console.rest.operation import ApiOperation, Parameter, Right
from protocol.error_codes import ErrorCode
from security.acls.binding import AclFilter
from security.acls.types import Operation, ResourceType

NOT_SERVED: Final = "NOT_SERVED"
_MISSING: Final = frozenset(
    {
        ErrorCode.SECURITY_DISABLED,
        ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    }
)
SUBJECTS: Final = ("USERS", "ACLS", "QUOTAS", "TOKENS")


class SecurityState(Answer):
    """Why the cluster has no list of the subject; null if it has one.

    NOT_SERVED: the brokers do not have the API. SECURITY_DISABLED: they have no authorizer.
    DELEGATION_TOKEN_AUTH_DISABLED: they have no secret key for tokens. DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: the
    console has no login at the brokers.
    """

    missing: str | None


async def get_state(call: Call) -> SecurityState:
    """Return whether the cluster has users, ACLs, quotas or delegation tokens, and if not, why."""
    try:
        await _ask(call, call.query["of"])
    except ApiNotServedError:
        return SecurityState(missing=NOT_SERVED)
    except KafkaError as error:
        if error.code not in _MISSING:
            raise
        return SecurityState(missing=error.code.name)
    return SecurityState(missing=None)


async def _ask(call: Call, subject: str) -> None:
    """Send the request of a list, so that the answer is short where the protocol can select."""
    match subject:
        case "USERS":
            await call.admin.describe_scram_users([""])
        case "ACLS":
            await call.admin.describe_acls(AclFilter(resource_type=ResourceType.TOPIC, name=""))
        case "QUOTAS":
            await call.admin.describe_client_quotas(user="", strict=True)
        case _:
            await call.admin.describe_delegation_tokens([])


OPERATIONS: Final = (
    ApiOperation(
        "GET",
        "/security",
        get_state,
        Right(Operation.DESCRIBE),
        SecurityState,
        query=(Parameter("of", is_required=True, choices=SUBJECTS),),
    ),
)
