"""Changes of SCRAM credentials: the rules of AlterUserScramCredentials (KIP-554), and how they are written.

All changes of a user are written together, or none of them. Passwords arrive salted: the broker never sees them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from broker.authentication.scram_credentials import user_path
from broker.settings.entities import EntityConfigs
from protocol.error_codes import ErrorCode
from protocol.messages.alter_user_scram_credentials import ScramCredentialDeletion, ScramCredentialUpsertion
from security.sasl.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramMechanism,
)

MECHANISMS_BY_TYPE: Final[Mapping[int, ScramMechanism]] = {one.type: one for one in SCRAM_MECHANISMS.values()}
STEP: Final = 100
"""Entries after which other tasks run: about a millisecond."""
NO_NAME: Final = "Username must not be empty"
_UNKNOWN_MECHANISM: Final = "Unknown SCRAM mechanism"
_TWICE: Final = "A user credential cannot be altered twice in the same request"
_MISSING: Final = "Attempt to delete a user credential that does not exist"
_NO_PASSWORD: Final = "The salted password must not be empty"


class Result(NamedTuple):
    """What became of the changes of one user."""

    code: ErrorCode
    message: str | None


class _Change(NamedTuple):
    """One change of a user. credential: None to delete."""

    mechanism: ScramMechanism
    credential: ScramCredential | None


class _RefusedError(Exception):
    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.result = Result(code, message)


async def alter_credentials(
    entities: EntityConfigs,
    deletions: Iterable[ScramCredentialDeletion],
    upsertions: Iterable[ScramCredentialUpsertion],
) -> dict[str, Result]:
    """Apply changes. Return what became of each user. Raises RegistryError."""
    entries: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*deletions, *upsertions]
    count = Counter((one.name, one.mechanism) for one in entries)
    repeated = {name for (name, _), times in count.items() if times > 1}
    results: dict[str, Result] = {}
    changes: dict[str, list[_Change]] = {}
    for number, entry in enumerate(entries, 1):
        if number % STEP == 0:
            await asyncio.sleep(0)  # a request may have any number of entries
        if entry.name in results:
            continue
        try:
            change = _checked(entry)
        except _RefusedError as refused:
            results[entry.name] = refused.result
            continue
        if entry.name in repeated:
            results[entry.name] = Result(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
            continue
        changes.setdefault(entry.name, []).append(change)
    for user in [name for name in changes if name not in results]:
        results[user] = await _write(entities, user, changes[user])
    return results


def _checked(entry: ScramCredentialDeletion | ScramCredentialUpsertion) -> _Change:
    if not entry.name:
        raise _RefusedError(ErrorCode.UNACCEPTABLE_CREDENTIAL, NO_NAME)
    mechanism = MECHANISMS_BY_TYPE.get(entry.mechanism)
    if mechanism is None:
        raise _RefusedError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, _UNKNOWN_MECHANISM)
    if isinstance(entry, ScramCredentialDeletion):
        return _Change(mechanism, None)
    if entry.iterations < MIN_ITERATIONS:
        raise _RefusedError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if entry.iterations > MAX_ITERATIONS:
        raise _RefusedError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not entry.salted_password:
        raise _RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR, _NO_PASSWORD)
    credential = ScramCredential.of_salted_password(
        mechanism, bytes(entry.salted_password), bytes(entry.salt), entry.iterations
    )
    return _Change(mechanism, credential)


async def _write(entities: EntityConfigs, user: str, changes: list[_Change]) -> Result:
    def changed(config: Mapping[str, str]) -> dict[str, str]:
        values = dict(config)
        for change in changes:
            if change.credential is not None:
                values[change.mechanism.name] = change.credential.text()
            elif values.pop(change.mechanism.name, None) is None:
                raise _RefusedError(ErrorCode.RESOURCE_NOT_FOUND, _MISSING)
        return values

    try:
        await entities.alter(user_path(user), changed)
    except _RefusedError as refused:
        return refused.result
    return Result(ErrorCode.NONE, "")
