"""The OpenAPI document, made from the tables of operations and their models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from inspect import getdoc
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from console.rest.answering import JSON
from console.rest.event_stream import CONTENT_TYPE as EVENTS
from console.rest.models import ErrorAnswer
from console.rest.operation import ApiOperation

_REFERENCE: Final = "#/components/schemas/{model}"
_NUMBERS: Final = frozenset({"broker_id", "partition_id"})
_PARAMETER: Final = re.compile(r"{(\w+)}")
_ERRORS: Final = {
    "400": "The request, or a value in it, is not valid.",
    "401": "The login is not valid.",
    "403": "The user may not do this.",
    "404": "There is no such resource.",
    "5XX": "The cluster did not answer, or answered with an error.",
}
_BODY_ERRORS: Final = {"413": "The body is too large.", "415": f"The Content-Type is not {JSON}."}


def openapi_document(tables: Mapping[str, Iterable[ApiOperation]], version: str) -> dict[str, Any]:
    """Return the document, as JSON.

    tables: the operations below each root, such as `/v3`. version: of this program.
    """
    rows = [(root, one) for root, table in tables.items() for one in table]
    schemas = _schemas([one for _, one in rows])
    paths: dict[str, dict[str, Any]] = {}
    for root, one in rows:
        paths.setdefault(root + one.path, {})[one.method.lower()] = _operation(one)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Ottla REST API",
            "description": "For any Kafka cluster: Confluent's REST Proxy v3, and what the console's pages need.",
            "version": version,
        },
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _schemas(rows: list[ApiOperation]) -> dict[str, Any]:
    """Return the schemas of all models: of requests as they are validated, of answers as they are sent."""
    taken = {one.takes for one in rows if one.takes is not None}
    given = (
        {one.answers for one in rows if one.answers is not None}
        | {one.events for one in rows if one.events is not None}
        | {ErrorAnswer}
    )
    models: list[tuple[type[BaseModel], Any]] = [
        *((one, "validation") for one in sorted(taken, key=lambda one: one.__name__)),
        *((one, "serialization") for one in sorted(given, key=lambda one: one.__name__)),
    ]
    _, document = models_json_schema(models, ref_template=_REFERENCE)
    found: dict[str, Any] = document["$defs"]
    return found


def _operation(row: ApiOperation) -> dict[str, Any]:
    description = " ".join((getdoc(row.handler) or "").split())
    found: dict[str, Any] = {
        "operationId": getattr(row.handler, "__name__", row.path),
        "summary": description.partition(". ")[0].removesuffix("."),
        "description": description,
        "parameters": [*_of_path(row), *_of_query(row)],
        "responses": _responses(row),
    }
    if row.takes is not None:
        found["requestBody"] = {"required": True, "content": _content(row.takes)}
    return found


def _of_path(row: ApiOperation) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "integer" if name in _NUMBERS else "string"}}
        for name in _PARAMETER.findall(row.path)
    ]


def _of_query(row: ApiOperation) -> list[dict[str, Any]]:
    return [
        {
            "name": one.name,
            "in": "query",
            "required": one.is_required,
            "schema": {"type": "string"} | ({"enum": list(one.choices)} if one.choices else {}),
        }
        for one in row.query
    ]


def _responses(row: ApiOperation) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "Done."}
    if row.answers is not None:
        answer["content"] = _content(row.answers)
    if row.events is not None:
        answer["content"] = _content(row.events, EVENTS)
    errors = _ERRORS | (_BODY_ERRORS if row.takes is not None else {})
    return {
        str(row.status): answer,
        **{status: {"description": text, "content": _content(ErrorAnswer)} for status, text in errors.items()},
    }


def _content(model: type[BaseModel], content_type: str = JSON) -> dict[str, Any]:
    return {content_type: {"schema": {"$ref": _REFERENCE.format(model=model.__name__)}}}
