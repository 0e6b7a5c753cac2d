"""The schemas of a schema registry, by id: each is asked for once, however many records wait for it.

Ids come from records, which anybody may have written: what is asked for at once, what is kept and how long a request
waits are limited. What failed is not asked for again for a short time, so that a dead registry does not slow pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple, TypeVar

from client.schemas.codec import Codec, SchemaError
from client.schemas.registry import RegisteredSchema, SchemaRegistry, UnknownSchemaError, UnreachableError

WAIT_S: Final = 3.0
"""How long a request waits for schemas. They go on loading, for the next request."""
RETRY_S: Final = 10.0
"""How long what failed is not asked for again."""
MAX_BYTES: Final = 512 * 1024
"""Of a schema, with its answer around it."""
_MAX_KEPT: Final = 100
_MAX_FAILURES: Final = 1000
_MAX_ASKED: Final = 50
"""Schemas that one request may ask for."""
_MAX_PENDING: Final = 100
_AT_ONCE: Final = 4
_NOT_LOADED: Final = "the schema is not loaded yet"
NO_REGISTRY: Final = "there is no schema registry: ottla.console.schema.registry.url is not set"
_T = TypeVar("_T")


class Loaded(NamedTuple):
    """A schema, and its codec or why there is none."""

    schema: RegisteredSchema
    codec: Codec | None
    error: str | None


class Failure(NamedTuple):
    """Why there is no schema. `is_unknown`: the registry does not have this id. `until`: by the clock."""

    reason: str
    is_unknown: bool = False
    until: float = 0.0


class SchemaCache:
    """Schemas by id. The registries are asked in their order: the next one if one does not answer."""

    def __init__(
        self,
        urls: Iterable[str] = (),
        user_info: str | None = None,
        *,
        wait_s: float = WAIT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Raises SchemaError for what is not a URL."""
        self._wait_s = wait_s
        self._registries = [
            SchemaRegistry(one, user_info=user_info, timeout_s=wait_s, max_bytes=MAX_BYTES, keeps=0) for one in urls
        ]
        self._clock = clock
        self._loaded: dict[int, Loaded] = {}
        self._failures: dict[int, Failure] = {}
        self._pending: dict[int, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._dead: Failure | None = None
        self._stack: contextlib.AsyncExitStack | None = None

    @property
    def is_configured(self) -> bool:
        """Whether there is a schema registry."""
        return bool(self._registries)

    async def load(self, ids: Iterable[int]) -> None:
        """Load schemas, as far as the limits allow. `get` says what became of each."""
        missing = [one for one in dict.fromkeys(ids) if isinstance(self._state(one), Failure)]
        for number in missing[:_MAX_ASKED]:
            failure = self._failure(number)
            if failure is None and number not in self._pending and len(self._pending) < _MAX_PENDING:
                task = self._pending[number] = asyncio.create_task(self._load(number))
                task.add_done_callback(lambda _, number=number: self._pending.pop(number, None))  # type: ignore[misc]
        if waiting := [self._pending[one] for one in missing if one in self._pending]:
            await asyncio.wait(waiting, timeout=self._wait_s)

    def get(self, number: int) -> Loaded | Failure:
        """Return a schema that has been loaded, or why it has not."""
        found = self._state(number)
        if isinstance(found, Loaded):  # the ones that are used stay
            self._loaded[number] = self._loaded.pop(number)
        return found

    async def subjects(self, number: int) -> list[tuple[str, int]]:
        """Return the subjects and versions of a schema. Raises SchemaError."""
        return await self.ask(lambda registry: registry.versions(number))

    async def close(self) -> None:
        """Close the connections."""
        for task in list(self._pending.values()):
            task.cancel()
        await asyncio.gather(*self._pending.values(), return_exceptions=True)
        if self._stack is not None:
            await self._stack.aclose()

    def _state(self, number: int) -> Loaded | Failure:
        if not self._registries:
            return Failure(NO_REGISTRY)
        return self._loaded.get(number) or self._failure(number) or Failure(_NOT_LOADED)

    def _failure(self, number: int) -> Failure | None:
        for one in (self._failures.get(number), self._dead):
            if one is not None and self._clock() < one.until:
                return one
        return None

    async def _load(self, number: int) -> None:
        try:
            async with self._turns:
                if self._failure(number) is not None:
                    return
                schema = await self.ask(lambda registry: registry.by_id(number))
                self._put(self._loaded, number, await _loaded(schema), _MAX_KEPT)
        except SchemaError as error:
            failure = Failure(str(error), isinstance(error, UnknownSchemaError), self._clock() + RETRY_S)
            self._put(self._failures, number, failure, _MAX_FAILURES)

    @staticmethod
    def _put(kept: dict[int, _T], number: int, one: _T, most: int) -> None:
        kept[number] = one
        while len(kept) > most:
            del kept[next(iter(kept))]

    async def ask(self, ask: Callable[[SchemaRegistry], Awaitable[_T]]) -> _T:
        """Return the answer of the first registry that gives one. Raises SchemaError."""
        if self._stack is None:
            self._stack = contextlib.AsyncExitStack()
            for registry in self._registries:
                await self._stack.enter_async_context(registry)
        if self._dead is not None and self._clock() < self._dead.until:
            raise SchemaError(self._dead.reason)
        last = SchemaError(NO_REGISTRY)
        for registry in self._registries:
            try:
                return await ask(registry)
            except UnreachableError as error:
                last = error
        self._dead = Failure(str(last), until=self._clock() + RETRY_S)
        raise last


async def _loaded(schema: RegisteredSchema) -> Loaded:
    from client.schemas.registered import codec_of_registered  # takes 20 ms, and the first page does not need it
    from console.decoding.json_keywords import RE2_KEYWORDS

    try:
        return Loaded(schema, await codec_of_registered(schema, keywords=RE2_KEYWORDS), None)
    except SchemaError as error:
        return Loaded(schema, None, str(error))
