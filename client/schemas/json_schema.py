"""JSON Schema: JSON text that a schema describes."""

import json
from collections.abc import Mapping
from typing import Any

from client.schemas.codec import Limits, MisfitError, SchemaError, missing_library
from client.schemas.json_text import dump, load


class JsonSchemaCodec:
    """A JSON Schema; draft 7 if it names no other. `references` are the texts of schemas that `$ref` names."""

    def __init__(self, text: str, references: Mapping[str, str] | None = None) -> None:
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
                        json.loads(one), default_specification=referencing.jsonschema.DRAFT7
                    ),
                )
                for name, one in (references or {}).items()
            ]
            kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft7Validator)
            kind.check_schema(schema)
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
