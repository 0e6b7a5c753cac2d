"""Decodes keys and values of one topic, as a request asks: the decoder of each, and how much is shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from console.decoding.decoders import AUTO, INTERNAL, Decoded, as_json, decode
from console.decoding.errors import DecodingError
from console.decoding.limits import MAX_BYTES
from console.decoding.registry_decoder import REGISTRY, decode_registered, schema_id_of
from console.decoding.schema_cache import SchemaCache
from protocol.internal_records import decode_record, is_internal

MAX_RECORD: Final = MAX_BYTES


class RecordDecoder:
    """The decoders of key, value and headers of a topic."""

    def __init__(
        self, topic: str, key: str = AUTO, value: str = AUTO, schemas: SchemaCache | None = None, header: str = AUTO
    ) -> None:
        self._topic = topic
        self._key = key
        self._value = value
        self._header = header
        self._is_internal = is_internal(topic)
        self._schemas = SchemaCache() if schemas is None else schemas

    async def prepare(self, contents: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        """Load the schemas that keys and values need. What is not there in time is shown without them."""
        if self._schemas.is_configured and not self._is_internal:
            await self._schemas.load(self._schema_ids(contents))

    def _schema_ids(self, contents: Iterable[tuple[bytes | None, bytes | None]]) -> Iterator[int]:
        names = (self._key, self._value)
        for pair in contents:
            for name, data in zip(names, pair, strict=True):
                if name in (AUTO, REGISTRY) and data is not None and (number := schema_id_of(data)) is not None:
                    yield number

    def _decode(self, name: str, data: bytes) -> Decoded:
        if name == REGISTRY or (name == AUTO and self._schemas.is_configured):
            return decode_registered(name, data, self._schemas)
        return decode(name, data)

    def key(self, key: bytes | None) -> Decoded | None:
        """Return what is shown of a key; None for null."""
        if key is None:
            return None
        if self._uses_internal(self._key):
            return self._internal(0, self._key, key, None) or _other(self._key, key)
        return self._decode(self._key, key)

    def value(self, key: bytes | None, value: bytes | None) -> Decoded | None:
        """Return what is shown of a value; None for null. The value of an internal topic needs the key."""
        if value is None:
            return None
        if self._uses_internal(self._value):
            return self._internal(1, self._value, key, value) or _other(self._value, value)
        return self._decode(self._value, value)

    def header(self, value: bytes) -> Decoded:
        """Return what is shown of the value of a header."""
        return decode(self._header, value)

    def _uses_internal(self, name: str) -> bool:
        return self._is_internal and name in (AUTO, INTERNAL)

    def _internal(self, which: int, name: str, key: bytes | None, value: bytes | None) -> Decoded | None:
        if max(len(key or b""), len(value or b"")) > MAX_RECORD:
            return None
        found: tuple[Any, Any] | None = decode_record(self._topic, key, value)
        if found is None:
            return None
        try:
            return as_json(INTERNAL, found[which])
        except DecodingError as error:
            return _other(name, value or b"")._replace(error=str(error))


def _other(name: str, data: bytes) -> Decoded:
    """Return the content of a record that is not one of Kafka's."""
    found = decode(AUTO, data)
    return found if name == AUTO else found._replace(error="is not a record that Kafka writes to this topic")
