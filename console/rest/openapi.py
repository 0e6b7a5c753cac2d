"""The OpenAPI document, made from the tables of operations and their models."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from inspect import getdoc
from typing import Any, Final

from pydantic import TypeAdapter

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

References = dict[type, dict[str, Any]]
"""The schema that refers to the schema of a model."""


def openapi_document(tables: Mapping[str, Iterable[ApiOperation]], version: str) -> dict[str, Any]:
    """Return the document, as JSON.

    tables: the operations below each root, such as `/v3`. version: of this program.
    """
    rows = [(root, one) for root, table in tables.items() for one in table]
    references, schemas = _schemas([one for _, one in rows])
    paths: dict[str, dict[str, Any]] = {}
    for root, one in rows:
        paths.setdefault(root + one.path, {})[one.method.lower()] = _operation(one, references)
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


def _schemas(rows: list[ApiOperation]) -> tuple[References, dict[str, Any]]:
    """Return the schemas of all models, of requests as they are validated and of answers as they are sent, by name.

    The name in a reference is longer than that of the model if two models of this name differ.
    """
    taken = {one.takes for one in rows if one.takes is not None}
    given = (
        {one.answers for one in rows if one.answers is not None}
        | {one.events for one in rows if one.events is not None}
        | {ErrorAnswer}
    )
    models: list[tuple[type, Any, TypeAdapter[Any]]] = [
        *((one, "validation", TypeAdapter(one)) for one in sorted(taken, key=lambda one: one.__name__)),
        *((one, "serialization", TypeAdapter(one)) for one in sorted(given, key=lambda one: one.__name__)),
    ]
    made, document = TypeAdapter.json_schemas(models, ref_template=_REFERENCE)
    references = {model: reference for (model, _), reference in made.items() if isinstance(model, type)}
    return references, document["$defs"]


def _operation(row: ApiOperation, references: References) -> dict[str, Any]:
    description = " ".join((getdoc(row.handler) or "").split())
    found: dict[str, Any] = {
        "operationId": getattr(row.handler, "__name__", row.path),
        "summary": description.partition(". ")[0].removesuffix("."),
        "description": description,
        "parameters": [*_of_path(row), *_of_query(row)],
        "responses": _responses(row, references),
    }
    if row.takes is not None:
        found["requestBody"] = {"required": True, "content": _content(references[row.takes])}
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


def _responses(row: ApiOperation, references: References) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "Done."}
    if row.answers is not None:
        answer["content"] = _content(references[row.answers])
    if row.events is not None:
        answer["content"] = _content(references[row.events], EVENTS)
    errors = _ERRORS | (_BODY_ERRORS if row.takes is not None else {})
    return {
        str(row.status): answer,
        **{
            status: {"description": text, "content": _content(references[ErrorAnswer])}
            for status, text in errors.items()
        },
    }


def _content(reference: dict[str, Any], content_type: str = JSON) -> dict[str, Any]:
    return {content_type: {"schema": reference}}
