"""Schemas by subject: those that records to produce name, asked for once in a while."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from client.schemas.codec import SchemaError
from console.decoding.schema_cache import RETRY_S, SchemaCache

_MAX_KEPT: Final = 500


class SubjectVersion(NamedTuple):
    """A schema in a subject."""

    schema_id: int
    version: int


class SubjectCache:
    """Ids and versions of schemas. Each answer is used for some seconds: a subject may get a new version."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[tuple[str, ...], tuple[float, SubjectVersion | SchemaError]] = {}

    async def of_id(self, schemas: SchemaCache, subject: str, number: int) -> SubjectVersion:
        """Return a schema by its id. Raises SchemaError if the subject does not have it."""
        return await self._find(("id", subject, str(number)), lambda: _of_id(schemas, subject, number))

    async def of_version(self, schemas: SchemaCache, subject: str, version: int | str) -> SubjectVersion:
        """Return a version of a subject, by its number or "latest". Raises SchemaError."""

        async def find() -> SubjectVersion:
            schema, number = await schemas.ask(lambda registry: registry.version(subject, version))
            return SubjectVersion(schema.id, number)

        return await self._find(("version", subject, str(version)), find)

    async def of_text(self, schemas: SchemaCache, subject: str, kind: str, text: str) -> SubjectVersion:
        """Return a schema that is given as text, registered if the subject does not have it. Raises SchemaError."""

        async def find() -> SubjectVersion:
            return SubjectVersion(*await schemas.ask(lambda registry: registry.registered(subject, kind, text)))

        digest = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
        return await self._find(("text", subject, kind, digest), find)

    async def _find(self, key: tuple[str, ...], find: Callable[[], Awaitable[SubjectVersion]]) -> SubjectVersion:
        until, known = self._kept.get(key, (0.0, None))
        if known is None or self._clock() >= until:
            try:
                known = await find()
            except SchemaError as error:
                known = error
            self._kept.pop(key, None)
            self._kept[key] = self._clock() + RETRY_S, known
            while len(self._kept) > _MAX_KEPT:
                del self._kept[next(iter(self._kept))]
        if isinstance(known, SchemaError):
            raise SchemaError(str(known))
        return known


async def _of_id(schemas: SchemaCache, subject: str, number: int) -> SubjectVersion:
    for name, version in await schemas.subjects(number):
        if name == subject:
            return SubjectVersion(number, version)
    raise SchemaError(f"the subject {subject} has no schema with the id {number}")
