"""Decodes the keys and values of records for `ottla consume`."""

import contextlib
from collections.abc import AsyncIterator

from client.consumer.fetched import ConsumerRecord
from client.schemas.codec import Codec, MisfitError
from client.schemas.json_text import dump
from client.schemas.registered import codec_of_registered
from client.schemas.registry import SchemaRegistry
from client.schemas.wire_format import unframe
from ottla.command_line.failure import CommandError
from ottla.command_line.session import say
from ottla.records.json_content import JsonText
from ottla.schemas.loading import codec_of_file, needs_registry
from ottla.schemas.options import BY_ID, RAW, REGISTRY_OPTION, DecodingOptions


class FieldDecoder:
    """Decodes keys or values: all with one codec, or each with the schema whose id it contains."""

    def __init__(self, codec: Codec | None, registry: SchemaRegistry | None) -> None:
        self._codec = codec
        self._registry = registry
        self._codecs: dict[int, Codec] = {}

    async def decode(self, data: bytes | None) -> bytes | None:
        """Return JSON text; None for null. Raises MisfitError, SchemaError."""
        if data is None:
            return None
        if self._registry is None:
            assert self._codec is not None
            return _json_text(self._codec.decode(data, is_framed=False), None)
        number, content = unframe(data)
        if number not in self._codecs:
            self._codecs[number] = await codec_of_registered(await self._registry.by_id(number))
        return _json_text(self._codecs[number].decode(content, is_framed=True), number)


def _json_text(value: object, schema_id: int | None) -> JsonText:
    try:
        text = JsonText(dump(value).encode())
    except ValueError as error:
        raise MisfitError(f"cannot be shown as JSON: {error}") from None
    text.schema_id = schema_id
    return text


class RecordDecoder:
    """Decodes records. A record that does not fit ends the command, or with `keep_going` stays as it is."""

    def __init__(self, key: FieldDecoder | None, value: FieldDecoder | None, *, keep_going: bool) -> None:
        self._key = key
        self._value = value
        self._keep_going = keep_going
        # How many keys and values did not fit.
        self.misfits = 0

    async def decode(self, record: ConsumerRecord) -> ConsumerRecord:
        """Return the record with JSON text as key and value. Raises CommandError, which names the record."""
        key = await self._field(record, "key", self._key, record.key)
        value = await self._field(record, "value", self._value, record.value)
        return record._replace(key=key, value=value)

    async def _field(
        self, record: ConsumerRecord, name: str, decoder: FieldDecoder | None, content: bytes | None
    ) -> bytes | None:
        if decoder is None:
            return content
        try:
            return await decoder.decode(content)
        except MisfitError as error:
            message = f"{record.topic}-{record.partition} offset {record.offset}: the {name} {error}"
            if not self._keep_going:
                raise CommandError(f"{message} (--keep-going prints it undecoded)") from None
            say(f"ottla: {message}")
            self.misfits += 1
            return content


@contextlib.asynccontextmanager
async def opened_decoder(options: DecodingOptions) -> AsyncIterator[RecordDecoder]:
    """Open the decoder of the options. Raises CommandError, also at the end if records did not fit."""
    async with contextlib.AsyncExitStack() as stack:
        registry = None
        if options.registry is not None:
            registry = await stack.enter_async_context(SchemaRegistry(options.registry, REGISTRY_OPTION))
        value_schema = options.value_schema
        if value_schema is None and registry is not None:
            value_schema = BY_ID
        decoder = RecordDecoder(
            await _field_decoder(options.key_schema, "--key-schema", registry),
            await _field_decoder(value_schema, "--value-schema", registry),
            keep_going=options.keep_going,
        )
        yield decoder
    if decoder.misfits:
        what = "key or value" if decoder.misfits == 1 else "keys and values"
        raise CommandError(f"{decoder.misfits} {what} did not fit, and had to be printed undecoded")


async def _field_decoder(schema: str | None, option: str, registry: SchemaRegistry | None) -> FieldDecoder | None:
    if schema is None or schema == RAW:
        return None
    if schema == BY_ID:
        if registry is None:
            raise CommandError(f"{option} {BY_ID} needs --schema-registry URL")
        return FieldDecoder(None, registry)
    codec = await codec_of_file(schema)
    if codec is None:
        if registry is None:
            raise needs_registry(schema, option)
        raise CommandError(
            f"{option} {schema!r}: there is no such file; with --schema-registry, records name their schema themselves:"
            f" {option} {BY_ID}"
        )
    return FieldDecoder(codec, None)
