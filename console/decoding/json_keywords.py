"""The keywords of JSON Schema that have regular expressions, in RE2: schemas in a request are anybody's.

They replace those of jsonschema, which uses Python's `re`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from client.schemas.codec import SchemaError
from client.schemas.json_schema import Keyword
from console.decoding.expressions import ExpressionError, NoRe2Error, searcher


def _matches(expression: str, text: str) -> bool:
    try:
        return searcher(expression)(text)
    except ExpressionError as error:
        raise SchemaError(f"the pattern {expression[:80]!r} of the JSON Schema {error}") from None
    except NoRe2Error as error:
        raise SchemaError(f"the JSON Schema has patterns: {error}") from None


def _pattern(validator: Any, pattern: str, instance: Any, _: object) -> Iterator[Any]:
    from jsonschema import ValidationError  # optional: the extra `schemas`

    if validator.is_type(instance, "string") and not _matches(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, schemas: Mapping[str, Any], instance: Any, _: object) -> Iterator[Any]:
    if validator.is_type(instance, "object"):
        for pattern, schema in schemas.items():
            for name, value in instance.items():
                if _matches(pattern, name):
                    yield from validator.descend(value, schema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, wanted: Any, instance: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
    if validator.is_type(instance, "object"):
        patterns, properties = schema.get("patternProperties", {}), schema.get("properties", {})
        for name, value in instance.items():
            if name not in properties and not any(_matches(one, name) for one in patterns):
                yield from validator.descend(value, wanted, path=name)


def _unevaluated_properties(*_: object) -> Iterator[Any]:
    raise SchemaError("the keyword unevaluatedProperties of the JSON Schema is not supported here")


RE2_KEYWORDS: Final[Mapping[str, Keyword]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "unevaluatedProperties": _unevaluated_properties,
}
