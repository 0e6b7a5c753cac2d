"""SCRAM users. Passwords only come in: no answer and no log contains one."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, SecretStr, StringConstraints

from client.errors import KafkaError
from console.rest.call import Call
from console.rest.errors import RestError, not_found
from console.rest.models import Answer, Asked
from console.rest.operation import ApiOperation, Right
from protocol.error_codes import ErrorCode
from security.acls.types import Operation
from security.sasl.scram import MIN_ITERATIONS

Mechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]
MAX_ITERATIONS: Final = 16_384
_BOTH: Final[list[Mechanism]] = ["SCRAM-SHA-256", "SCRAM-SHA-512"]


class Credential(Answer):
    """How a user can log in. iterations: of the hash."""

    mechanism: str
    iterations: int


class User(Answer):
    """A user with SCRAM credentials."""

    name: str
    credentials: list[Credential]


class Users(Answer):
    """All users, by name."""

    users: list[User]


class AskedPassword(Asked):
    """A new password, for these mechanisms."""

    password: Annotated[SecretStr, Field(min_length=1, max_length=1024)]
    mechanisms: Annotated[list[Mechanism], Field(default_factory=lambda: list(_BOTH), min_length=1)]
    iterations: Annotated[int, Field(ge=MIN_ITERATIONS, le=MAX_ITERATIONS)] = MIN_ITERATIONS


class NewUser(AskedPassword):
    """A user to create."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f\x7f]+$")]


async def list_users(call: Call) -> Users:
    """List the users that have a SCRAM credential."""
    found = await call.admin.describe_scram_users()
    return Users(users=[_user(name, one) for name, one in sorted(found.items()) if not isinstance(one, KafkaError)])


async def create_user(call: Call) -> User:
    """Create a user. 409 if it has a credential already."""
    asked: NewUser = call.asked
    if await _credentials(call, asked.name):
        raise RestError(409, f"user {asked.name} exists already: change its password")
    return await _set(call, asked.name, asked)


async def set_password(call: Call) -> User:
    """Change the password of a user."""
    asked: AskedPassword = call.asked
    name = call.text("user_name")
    await _require(call, name)
    return await _set(call, name, asked)


async def delete_user(call: Call) -> None:
    """Delete all SCRAM credentials of a user. Connections that exist stay open."""
    name = call.text("user_name")
    await call.admin.delete_scram_credentials(name, await _require(call, name))


async def _set(call: Call, name: str, asked: AskedPassword) -> User:
    password = asked.password.get_secret_value()
    await call.admin.set_scram_password(name, password, dict.fromkeys(asked.mechanisms), iterations=asked.iterations)
    return _user(name, dict.fromkeys(asked.mechanisms, asked.iterations))


async def _credentials(call: Call, name: str) -> dict[str, int]:
    found = (await call.admin.describe_scram_users([name])).get(name, {})
    if not isinstance(found, KafkaError):
        return found
    if found.code == ErrorCode.RESOURCE_NOT_FOUND:
        return {}
    raise found


async def _require(call: Call, name: str) -> dict[str, int]:
    found = await _credentials(call, name)
    if not found:
        raise not_found(f"there is no user {name}")
    return found


def _user(name: str, credentials: dict[str, int] | dict[Mechanism, int]) -> User:
    return User(
        name=name, credentials=[Credential(mechanism=one, iterations=count) for one, count in credentials.items()]
    )


_DESCRIBE: Final = Right(Operation.DESCRIBE)
_ALTER: Final = Right(Operation.ALTER)
OPERATIONS: Final = (
    ApiOperation("GET", "/users", list_users, _DESCRIBE, Users),
    ApiOperation("POST", "/users", create_user, _ALTER, User, status=201, takes=NewUser),
    ApiOperation("PUT", "/users/{user_name}", set_password, _ALTER, User, takes=AskedPassword),
    ApiOperation("DELETE", "/users/{user_name}", delete_user, _ALTER, status=204),
)
