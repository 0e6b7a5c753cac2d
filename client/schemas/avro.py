"""Avro: binary data and its JSON encoding, as kafka-avro-console-consumer prints it.

In the JSON encoding a value of a union carries the name of its type ({"string": "x"}; null is null), bytes and fixed
values are strings with a character for each byte, and logical types are what they are stored as (a date is a number).
To be written, a value of a union may be without its type: the first type that fits is used. A missing field has its
default. NaN and the infinities are strings.

Which of int and long, or of float and double, a union contains cannot be told after decoding: it is shown as the first
one that can hold the value, double before float.
"""

import io
import json
import math
from collections.abc import Mapping
from typing import Any

from client.schemas.avro_meter import AvroMeter
from client.schemas.codec import Limits, MisfitError, SchemaError, missing_library

# The name of a type, a list (a union) or an object.
Schema = Any

_RANGES = {"int": 2**31, "long": 2**63}
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_NAMED = ("record", "error", "enum", "fixed")
# The types of a union that a decoded value may have, by its Python type. Named types come with their names.
_TYPES_OF: dict[type, tuple[str, ...]] = {
    bool: ("boolean",),
    int: ("int", "long"),
    float: ("double", "float"),
    str: ("string",),
    bytes: ("bytes",),
    list: ("array",),
    dict: ("map",),
}


class AvroCodec:
    """An Avro schema. `references` are the texts of the schemas that it refers to, by the name of their type."""

    def __init__(self, text: str, references: Mapping[str, str] | None = None) -> None:
        """Raises SchemaError for what is not an Avro schema, or if fastavro is not installed."""
        try:
            import fastavro  # optional
            from fastavro.schema import SchemaParseException, UnknownType
        except ImportError as error:
            raise missing_library(error) from None
        self._fastavro = fastavro
        self._names: dict[str, Any] = {}
        try:
            known = {name: json.loads(one) for name, one in (references or {}).items()}
            inlined = _Inlined(known).schema(json.loads(text), "")
            self._schema = fastavro.parse_schema(inlined, self._names)
        except UnknownType as error:
            raise SchemaError(f"not an Avro schema: unknown type {error.name}") from None
        except (SchemaParseException, ValueError, KeyError, TypeError) as error:
            raise SchemaError(f"not an Avro schema: {error}") from None

    def decode(self, data: bytes, *, is_framed: bool, limits: Limits | None = None) -> Any:
        """Return the JSON value. Raises MisfitError."""
        if limits is not None:
            AvroMeter(data, limits, self._resolved).measure(self._schema)
        source = io.BytesIO(data)
        try:
            value = self._fastavro.schemaless_reader(source, self._schema, None, return_named_type=True)
            decoded = self._to_json(self._schema, value)
        except Exception as error:  # fastavro raises whatever the bytes lead to
            raise MisfitError(f"does not fit its Avro schema: {error or type(error).__name__}") from None
        if (used := source.tell()) != len(data):
            raise MisfitError(f"does not fit its Avro schema: only {used} of its {len(data)} bytes belong to it")
        return decoded

    def encode(self, value: Any, *, is_framed: bool) -> bytes:
        """Return the bytes for a JSON value. Raises MisfitError."""
        out = io.BytesIO()
        try:
            self._fastavro.schemaless_writer(out, self._schema, self._from_json(self._schema, value, ""))
        except (ValueError, OverflowError) as error:
            raise MisfitError(f"does not fit its Avro schema: {error}") from None
        return out.getvalue()

    def _resolved(self, schema: Schema) -> tuple[str, Any]:
        """Return the type of a schema that is not a union, and its definition."""
        while True:
            if isinstance(schema, str):
                if schema not in self._names:
                    return schema, schema
                schema = self._names[schema]
            elif isinstance(schema, dict) and not isinstance(schema["type"], str):
                schema = schema["type"]  # {"type": {"type": ...}}
            elif isinstance(schema, dict) and schema["type"] in self._names:
                schema = schema["type"]
            elif isinstance(schema, list):
                return "union", schema
            else:
                return schema["type"], schema

    def _to_json(self, schema: Schema, value: Any) -> Any:
        kind, schema = self._resolved(schema)
        match kind:
            case "union":
                return self._union_to_json(schema, value)
            case "record" | "error":
                return {field["name"]: self._to_json(field["type"], value[field["name"]]) for field in schema["fields"]}
            case "array":
                return [self._to_json(schema["items"], one) for one in value]
            case "map":
                return {name: self._to_json(schema["values"], one) for name, one in value.items()}
            case "bytes" | "fixed":
                return value.decode("latin-1")
            case "float" | "double" if not math.isfinite(value):
                return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return value

    def _union_to_json(self, union: list[Any], value: Any) -> Any:
        if value is None:
            return None
        branches = {self._branch_name(branch): branch for branch in union}
        if isinstance(value, tuple):  # a named type
            name, value = value
        else:
            fitting = [one for one in _TYPES_OF[type(value)] if one in branches]
            name = next((one for one in fitting if one not in _RANGES or _in_range(value, one)), fitting[0])
        return {name: self._to_json(branches[name], value)}

    def _branch_name(self, branch: Schema) -> str:
        """Return the name of a type in a union: the full name of a named type."""
        kind, definition = self._resolved(branch)
        return str(definition["name"]) if kind in _NAMED else kind

    def _from_json(self, schema: Schema, value: Any, where: str) -> Any:
        """Return the value for fastavro. Raises ValueError, which names the field by its path."""
        kind, schema = self._resolved(schema)
        match kind:
            case "union":
                return self._union_from_json(schema, value, where)
            case "record" | "error":
                return self._record_from_json(schema, _checked(value, dict, "an object", where), where)
            case "array":
                items = _checked(value, list, "an array", where)
                return [self._from_json(schema["items"], one, f"{where}[{index}]") for index, one in enumerate(items)]
            case "map":
                entries = _checked(value, dict, "an object", where).items()
                return {name: self._from_json(schema["values"], one, _below(where, name)) for name, one in entries}
            case "enum":
                if value not in schema["symbols"]:
                    raise _wrong(value, f"one of {', '.join(schema['symbols'])}", where)
                return value
            case "bytes" | "fixed":
                return _bytes(value, schema["size"] if kind == "fixed" else None, where)
        return _primitive(kind, value, where)

    def _record_from_json(self, schema: dict[str, Any], value: dict[str, Any], where: str) -> dict[str, Any]:
        converted = {}
        for field in schema["fields"]:
            name = field["name"]
            if name not in value and "default" not in field:
                raise ValueError(f"the field {_below(where, name)} is missing")
            content = value[name] if name in value else field["default"]
            converted[name] = self._from_json(field["type"], content, _below(where, name))
        if unknown := value.keys() - converted.keys():
            raise ValueError(f"there is no field {_below(where, min(unknown))} in the schema")
        return converted

    def _union_from_json(self, union: list[Any], value: Any, where: str) -> Any:
        branches = {self._branch_name(branch): branch for branch in union}
        if isinstance(value, dict) and len(value) == 1:
            [(name, content)] = value.items()
            found = [one for one in branches if one == name or one.rpartition(".")[2] == name]
            if found:
                return found[0], self._from_json(branches[found[0]], content, where)
        errors = []
        for name, branch in branches.items():
            try:
                converted = self._from_json(branch, value, where)
            except ValueError as error:
                errors.append((name, error))
            else:
                return None if name == "null" else (name, converted)
        others = [error for name, error in errors if name != "null"]
        if len(others) == 1 and value is not None:
            raise others[0]
        raise _wrong(value, f"one of {', '.join(branches)}", where)


class _Inlined:
    """Puts referenced schemas in the place of the first use of their names, which is the form that fastavro parses."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self._known = dict(known)

    def schema(self, schema: Any, namespace: str) -> Any:
        """Return a schema with its references, without logical types: their values stay as they are stored."""
        if isinstance(schema, str):
            for name in (schema, f"{namespace}.{schema}"):
                if name in self._known:
                    return self.schema(self._known.pop(name), "")
            return schema
        if isinstance(schema, list):
            return [self.schema(one, namespace) for one in schema]
        if not isinstance(schema, dict):
            return schema
        before, dot, _ = str(schema.get("name", "")).rpartition(".")
        own = before if dot else schema.get("namespace", namespace)
        inlined = {key: value for key, value in schema.items() if key != "logicalType"}
        for key in ("type", "items", "values"):
            if key in inlined:
                inlined[key] = self.schema(inlined[key], own)
        if isinstance(inlined.get("fields"), list):
            inlined["fields"] = [self.schema(field, own) for field in inlined["fields"]]
        return inlined


def _in_range(value: int, kind: str) -> bool:
    return -_RANGES[kind] <= value < _RANGES[kind]


def _primitive(kind: str, value: Any, where: str) -> Any:
    match kind:
        case "null":
            return _checked(value, type(None), "null", where)
        case "boolean":
            return _checked(value, bool, "true or false", where)
        case "string":
            return _checked(value, str, "a string", where)
        case "int" | "long":
            number = value if not isinstance(value, bool) else None
            if not isinstance(number, int) or not _in_range(number, kind):
                raise _wrong(value, f"an integer of {32 if kind == 'int' else 64} bits", where)
            return number
        case "float" | "double":
            if isinstance(value, str) and value in _NOT_FINITE:
                return float(value)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise _wrong(value, "a number", where)
            return float(value)
    raise ValueError(f"the type {kind} is unknown")


def _bytes(value: Any, size: int | None, where: str) -> bytes:
    try:
        content = _checked(value, str, "a string", where).encode("latin-1")
    except UnicodeEncodeError:
        raise _wrong(value, "a string with a character up to U+00FF for each byte", where) from None
    if size is not None and len(content) != size:
        raise _wrong(value, f"a string of {size} characters", where)
    return bytes(content)


def _checked(value: Any, kind: type, what: str, where: str) -> Any:
    if not isinstance(value, kind):
        raise _wrong(value, what, where)
    return value


def _wrong(value: Any, what: str, where: str) -> ValueError:
    shown = json.dumps(value, ensure_ascii=False)
    return ValueError(f"{where or 'the value'} must be {what}, not {shown if len(shown) <= 60 else shown[:57] + '...'}")


def _below(where: str, name: str) -> str:
    return f"{where}.{name}" if where else name
