"""A schema registry with Confluent's REST API: schemas by id and by subject, each asked for once."""

import base64
import json
import os
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote

import aiohttp
from yarl import URL

from client.schemas.codec import SchemaError
from protocol.surrogates import RULE, has_lone_surrogate
from security.secret import HIDDEN
from security.urls import shown

TIMEOUT_S = 10
MAX_BYTES = 16 * 1024 * 1024
MAX_KEPT = 1000
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
# What the API answers, besides 404, if the user has no access.
_NO_ACCESS = (401, 403)
# What it answers for a schema that is not compatible, or is none.
_REFUSED = (409, 422)


class RegisteredSchema(NamedTuple):
    """A schema with its id.

    `kind` is AVRO, PROTOBUF or JSON. `references` are the texts of the schemas that it imports, by name.
    """

    id: int
    kind: str
    text: str
    references: Mapping[str, str]


class UnreachableError(SchemaError):
    """The schema registry gives no answer, or not as one: another one may."""


class UnknownSchemaError(SchemaError):
    """The schema registry does not have a schema with the id."""


class UnknownSubjectError(SchemaError):
    """The schema registry does not have the subject."""


class SchemaRegistry:
    """A client of a schema registry; an asynchronous context manager.

    The URL may contain a user and a password, or `user_info` is "user:password". An answer may have `max_bytes`; at
    most `keeps` schemas are kept. All methods raise SchemaError if the registry cannot be reached, does not know the
    schema or refuses access.
    """

    def __init__(
        self,
        url: str,
        name: str = "the schema registry",
        *,
        user_info: str | None = None,
        timeout_s: float = TIMEOUT_S,
        max_bytes: int = MAX_BYTES,
        keeps: int = MAX_KEPT,
    ) -> None:
        """`name` is what the URL comes from, for errors."""
        try:
            parsed = URL(url)
        except ValueError as error:
            why = "" if shown(url) == HIDDEN else f": {error}"
            raise SchemaError(f"{name} {shown(url)!r} is not a URL{why}") from None
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise SchemaError(f"{name} {shown(url)!r} is not a URL such as http://127.0.0.1:8081")
        self._base = str(parsed.with_user(None)).rstrip("/")
        self._headers = {"Accept": _ACCEPT}
        if user_info is None and parsed.user is not None:
            user_info = f"{parsed.user}:{parsed.password or ''}"
        if user_info is not None:
            if has_lone_surrogate(user_info):
                raise SchemaError(f"the user or the password of {name} {RULE}")
            self._headers["Authorization"] = f"Basic {base64.b64encode(user_info.encode()).decode()}"
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._keeps = keeps
        self._session: aiohttp.ClientSession | None = None
        self._by_id: dict[int, RegisteredSchema] = {}

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._timeout_s),
            headers=self._headers,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def by_id(self, number: int) -> RegisteredSchema:
        """Return the schema with an id."""
        if number in self._by_id:
            return self._by_id[number]
        answer = await self._get(f"/schemas/ids/{number}")
        if answer is None:
            raise UnknownSchemaError(f"the schema registry {self._base} has no schema with the id {number}")
        return self._keep(await self._schema(number, answer))

    async def versions(self, number: int) -> list[tuple[str, int]]:
        """Return the subjects that have the schema with an id, with its version there."""
        found = await self._get(f"/schemas/ids/{number}/versions")
        pairs = found if isinstance(found, list) else []
        return [(self._field(one, "subject", str), self._field(one, "version", int)) for one in pairs]

    async def latest(self, subject: str) -> RegisteredSchema:
        """Return the latest schema of a subject."""
        return (await self.version(subject, "latest"))[0]

    async def version(self, subject: str, version: int | str) -> tuple[RegisteredSchema, int]:
        """Return a version of a subject, by its number or "latest", with the number."""
        answer = await self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}")
        if answer is None:
            which = "" if version == "latest" else f" with a version {version}"
            raise UnknownSubjectError(f"the schema registry {self._base} has no subject {subject}{which}")
        schema = self._keep(await self._schema(self._field(answer, "id", int), answer))
        return schema, self._field(answer, "version", int)

    async def registered(self, subject: str, kind: str, text: str) -> tuple[int, int]:
        """Return the id and the version of a schema in a subject, where it is registered if it is new."""
        path, body = f"/subjects/{quote(subject, safe='')}", {"schema": text, "schemaType": kind}
        found = await self._ask("POST", path, body)
        if found is None:
            await self._ask("POST", f"{path}/versions", body)
            found = await self._ask("POST", path, body)
        return self._field(found, "id", int), self._field(found, "version", int)

    def _keep(self, schema: RegisteredSchema) -> RegisteredSchema:
        self._by_id[schema.id] = schema
        while len(self._by_id) > self._keeps:
            del self._by_id[next(iter(self._by_id))]
        return schema

    async def subjects(self) -> list[str]:
        """Return the names of all subjects."""
        found = await self._get("/subjects")
        return [str(one) for one in found] if isinstance(found, list) else []

    async def _schema(self, number: int, answer: Any) -> RegisteredSchema:
        texts: dict[str, str] = {}
        text = self._field(answer, "schema", str)
        await self._add_references(answer, texts)
        return RegisteredSchema(number, str(answer.get("schemaType") or "AVRO"), text, texts)

    async def _add_references(self, answer: Any, texts: dict[str, str]) -> None:
        """Add the texts of all schemas that an answer refers to, and of those that they refer to."""
        for reference in answer.get("references") or ():
            name = self._field(reference, "name", str)
            if name in texts:
                continue
            subject = self._field(reference, "subject", str)
            version = self._field(reference, "version", int)
            found = await self._get(f"/subjects/{quote(subject, safe='')}/versions/{version}")
            if found is None:
                raise SchemaError(
                    f"the schema registry {self._base} has no version {version} of the subject {subject},"
                    f" which is referred to as {name}"
                )
            texts[name] = self._field(found, "schema", str)
            await self._add_references(found, texts)

    def _field(self, answer: Any, name: str, kind: type) -> Any:
        if not isinstance(answer, dict) or not isinstance(answer.get(name), kind):
            raise SchemaError(f"{self._base} does not answer as a schema registry: the answer has no field {name!r}")
        return answer[name]

    async def _get(self, path: str) -> Any:
        return await self._ask("GET", path)

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Return the JSON of an answer; None for 404."""
        assert self._session is not None
        try:
            async with self._session.request(method, self._base + path, json=body) as response:
                text = (await self._body(response)).decode()
        except TimeoutError:
            raise UnreachableError(
                f"the schema registry {self._base} has not answered in {self._timeout_s:g} s"
            ) from None
        except aiohttp.ClientConnectorError as error:
            code = error.os_error.errno  # the text has the address, and differs between event loops
            reason = os.strerror(code) if code is not None and code > 0 else error.os_error
            raise UnreachableError(f"the schema registry {self._base} cannot be reached ({reason})") from None
        except (aiohttp.ClientError, UnicodeDecodeError) as error:
            raise UnreachableError(f"the schema registry {self._base} does not answer: {error}") from None
        if response.status in _NO_ACCESS:
            raise UnreachableError(
                f"the schema registry {self._base} refuses access ({response.status} {response.reason}):"
                " a user and a password go into the URL, http://user:password@host:8081"
            )
        try:
            answer = json.loads(text)
        except ValueError:
            answer = None
        if response.status == 404 and isinstance(answer, dict) and "error_code" in answer:
            return None
        if response.status in _REFUSED and isinstance(answer, dict) and "error_code" in answer:
            raise SchemaError(f"the schema registry {self._base} refuses the schema: {answer.get('message', '')}")
        if response.status != 200 or answer is None:
            message = answer.get("message", "") if isinstance(answer, dict) else ""
            raise UnreachableError(
                f"{self._base}{path} does not answer as a schema registry: {response.status} {message}"
            )
        return answer

    async def _body(self, response: aiohttp.ClientResponse) -> bytes:
        found = bytearray()
        async for piece in response.content.iter_any():
            found += piece
            if len(found) > self._max_bytes:
                raise SchemaError(f"the schema registry {self._base} answers with more than {self._max_bytes} bytes")
        return bytes(found)
