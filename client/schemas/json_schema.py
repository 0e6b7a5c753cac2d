"""JSON Schema: JSON text that a schema describes."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from client.schemas.codec import Limits, MisfitError, SchemaError, missing_library
from client.schemas.json_text import dump, load

Keyword = Callable[[Any, Any, Any, Any], Iterator[Any]]
"""What jsonschema calls with the validator, the value of the keyword, the JSON value, and the schema: its errors."""


class JsonSchemaCodec:
    """A JSON Schema; draft 7 if it names no other. `references` are the texts of schemas that `$ref` names.

    keywords: replace those of jsonschema.
    """

    def __init__(
        self, text: str, references: Mapping[str, str] | None = None, keywords: Mapping[str, Keyword] | None = None
    ) -> None:
        """Raises SchemaError for what is not a JSON Schema, or if jsonschema is not installed."""
        try:
            import jsonschema  # optional
            import referencing.jsonschema
        except ImportError as error:
            raise missing_library(error) from None
        try:
            schema = json.loads(text)
            if not isinstance(schema, (dict, bool)):
                raise ValueError("it is neither an object nor true nor false")
            resources = [
                (
                    name,
                    referencing.Resource.from_contents(
                        json.loads(one) if keywords is None else _of_one_draft(json.loads(one)),
                        default_specification=referencing.jsonschema.DRAFT7,
                    ),
                )
                for name, one in (references or {}).items()
            ]
            kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft7Validator)
            kind.check_schema(schema)
            if keywords is not None:  # a part that names its draft would be validated with the keywords of jsonschema
                kind = jsonschema.validators.extend(kind, keywords)
                schema = _of_one_draft(schema)
        except (ValueError, jsonschema.SchemaError) as error:
            raise SchemaError(f"not a JSON Schema: {getattr(error, 'message', error)}") from None
        registry: referencing.Registry[Any] = referencing.Registry().with_resources(resources)
        self._validator = kind(schema, registry=registry)
        self._unresolvable = referencing.exceptions.Unresolvable

    def decode(self, data: bytes, *, is_framed: bool, limits: Limits | None = None) -> Any:
        """Return the JSON value. Raises MisfitError, SchemaError for a reference that does not exist."""
        try:
            value = load(data)
        except ValueError as error:
            raise MisfitError(f"is not JSON: {error}") from None
        self._check(value)
        return value

    def encode(self, value: Any, *, is_framed: bool) -> bytes:
        """Return the JSON text. Raises MisfitError, SchemaError for a reference that does not exist."""
        self._check(value)
        return dump(value).encode()

    def _check(self, value: Any) -> None:
        try:
            error = next(iter(self._validator.iter_errors(value)), None)
        except self._unresolvable as unknown:
            raise SchemaError(f"the JSON Schema refers to {unknown.ref}, which is not among its references") from None
        if error is not None:
            where = "the value" if not error.absolute_path else ".".join(str(part) for part in error.absolute_path)
            raise MisfitError(f"does not fit its JSON Schema: {where}: {error.message}")


def _of_one_draft(schema: Any) -> Any:
    """Return a schema without `$schema`, in all its parts."""
    if isinstance(schema, dict):
        return {name: _of_one_draft(one) for name, one in schema.items() if name != "$schema"}
    return [_of_one_draft(one) for one in schema] if isinstance(schema, list) else schema
