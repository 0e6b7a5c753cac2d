"""Confluent's wire format: a magic byte 0, the id of the schema (4 bytes, big-endian), and the encoded key or value."""

from client.schemas.codec import MisfitError

_MAGIC = 0
_HEADER_SIZE = 5
_REASON = "it was not written with a schema registry"


def frame(schema_id: int, data: bytes) -> bytes:
    """Put the id of a schema in front of an encoded key or value."""
    return bytes((_MAGIC,)) + schema_id.to_bytes(4, "big") + data


def unframe(data: bytes) -> tuple[int, bytes]:
    """Return the id of the schema, and what follows it. Raises MisfitError."""
    if len(data) < _HEADER_SIZE:
        raise MisfitError(f"has {len(data)} bytes, too few for the id of a schema: {_REASON}")
    if data[0] != _MAGIC:
        raise MisfitError(f"begins with the byte {data[0]:#04x} and not with the magic byte 0: {_REASON}")
    return int.from_bytes(data[1:_HEADER_SIZE], "big"), data[_HEADER_SIZE:]
