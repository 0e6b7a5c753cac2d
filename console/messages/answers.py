"""Records as answers of the API."""

from __future__ import annotations

from typing import Final

from console.decoding.decoders import AUTO, Decoded, decode
from console.decoding.record_decoder import RecordDecoder
from console.messages.stored_record import StoredRecord
from console.rest.models import Answer

PREVIEW: Final = 1000
"""Characters of a key or value in a list."""
_MAX_PREVIEWED: Final = 64 * 1024
"""Bytes of a key or value that is decoded for a list."""
WHOLE: Final = 1024 * 1024
"""Characters of a key or value of one record."""
_MAX_HEADERS: Final = 100
_TYPES: Final = ("create", "append")


class Content(Answer):
    """A key, a value or the value of a header."""

    size: int
    """In bytes."""
    decoder: str
    text: str
    is_json: bool
    is_truncated: bool
    error: str | None
    """Why the data could not be decoded as asked."""
    schema_id: int | None
    """The schema in a schema registry that the data names."""
    schema_type: str | None
    """AVRO, PROTOBUF or JSON."""


class HeaderContent(Answer):
    """A header."""

    name: str
    value: Content | None


class BatchAnswer(Answer):
    """The batch of a record."""

    base_offset: int
    last_offset: int
    record_count: int
    size: int
    compression: str
    producer_id: int | None
    producer_epoch: int | None
    leader_epoch: int
    format: int
    """The version of the message format: 0, 1 or 2."""


class RecordAnswer(Answer):
    """A record."""

    partition: int
    offset: int
    timestamp: int | None
    """Milliseconds since 1970."""
    timestamp_type: str
    """create: set by the producer; append: set by the broker."""
    key: Content | None
    value: Content | None
    headers: list[HeaderContent]
    sequence: int | None
    transaction: str | None
    """committed, aborted or open; null without a transaction."""
    batch: BatchAnswer
    error: str | None
    """Why the batch cannot be read."""


def record_answer(record: StoredRecord, decoder: RecordDecoder, *, is_whole: bool = False) -> RecordAnswer:
    """Return a record for an answer. is_whole: with all of its key and value, up to WHOLE."""
    if is_whole:
        key = _content(record.key, decoder.key(record.key), WHOLE)
        value = _content(record.value, decoder.value(record.key, record.value), WHOLE)
    else:
        key, value = _previewed_key(record, decoder), _previewed_value(record, decoder)
    batch = record.batch
    has_producer = batch.producer_id >= 0
    return RecordAnswer(
        partition=record.partition,
        offset=record.offset,
        timestamp=None if record.timestamp < 0 else record.timestamp,
        timestamp_type=_TYPES[record.timestamp_type],
        key=key,
        value=value,
        headers=[
            _header(name, value, decoder, WHOLE if is_whole else PREVIEW)
            for name, value in record.headers[:_MAX_HEADERS]
        ],
        sequence=None if record.sequence < 0 else record.sequence,
        transaction=record.state,
        batch=BatchAnswer(
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            record_count=batch.record_count,
            size=batch.size_bytes,
            compression=batch.compression,
            producer_id=batch.producer_id if has_producer else None,
            producer_epoch=batch.producer_epoch if has_producer else None,
            leader_epoch=batch.leader_epoch,
            format=batch.magic,
        ),
        error=record.error,
    )


def _previewed_key(record: StoredRecord, decoder: RecordDecoder) -> Content | None:
    if record.key is not None and len(record.key) > _MAX_PREVIEWED:
        return _beginning(record.key)
    return _content(record.key, decoder.key(record.key), PREVIEW)


def _previewed_value(record: StoredRecord, decoder: RecordDecoder) -> Content | None:
    if record.value is not None and len(record.value) > _MAX_PREVIEWED:
        return _beginning(record.value)
    return _content(record.value, decoder.value(record.key, record.value), PREVIEW)


def _beginning(data: bytes) -> Content | None:
    """Return the beginning of a large value, which is not decoded for a list."""
    found = decode(AUTO, data[: PREVIEW * 4])
    return _content(data, found, PREVIEW)


def _header(name: str, value: bytes | None, decoder: RecordDecoder, limit: int) -> HeaderContent:
    return HeaderContent(name=name, value=None if value is None else _content(value, decoder.header(value), limit))


def _content(data: bytes | None, decoded: Decoded | None, limit: int) -> Content | None:
    if data is None or decoded is None:
        return None
    shown_bytes = min(len(data), _decoded_bytes(decoded))
    return Content(
        size=len(data),
        decoder=decoded.decoder,
        text=decoded.text[:limit],
        is_json=decoded.is_json and len(decoded.text) <= limit,
        is_truncated=len(decoded.text) > limit or (decoded.decoder in ("text", "hex") and shown_bytes < len(data)),
        error=decoded.error,
        schema_id=decoded.schema_id,
        schema_type=decoded.schema_type,
    )


def _decoded_bytes(decoded: Decoded) -> int:
    """Return how many bytes a text stands for."""
    if decoded.decoder == "hex":
        return (len(decoded.text) + 1) // 3
    if decoded.decoder == "text":
        return len(decoded.text.encode(errors="replace"))
    return 0
