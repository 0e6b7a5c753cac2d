"""Variable-length integers: seven bits a byte, least significant first, the high bit: another byte follows.

Lengths and tags of flexible versions are unsigned and at most 32 bits (5 bytes). Fields inside records
are zigzag: `varint` 32 bits (5 bytes), `varlong` 64 bits (10 bytes). Every decoder raises DecodeError on
truncation and on a value wider than its type.
"""

from __future__ import annotations

from protocol.buffer import Buffer
from protocol.errors import DecodeError


def encode_unsigned_varint(value: int) -> bytes:
    """Encode 0 <= value < 2**64; raises ValueError outside."""
    if 0 <= value < 128:
        return _ONE_BYTE[value]
    if not 0 <= value < 1 << 64:
        raise ValueError(f"no unsigned varint: {value}")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_varint(value: int) -> bytes:
    """Encode a signed 32 or 64 bit integer as zigzag; `encode_varlong` is the same function."""
    return encode_unsigned_varint(value << 1 if value >= 0 else (-value << 1) - 1)


encode_varlong = encode_varint


def decode_unsigned_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read at most 5 bytes, 32 bits: the value and the position after it."""
    return _decode(buffer, position, 5, 32)


def decode_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read a zigzag integer of 32 bits: the value and the position after it."""
    raw, position = _decode(buffer, position, 5, 32)
    return (raw >> 1) ^ -(raw & 1), position


def decode_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read a zigzag integer of 64 bits: the value and the position after it."""
    raw, position = _decode(buffer, position, 10, 64)
    return (raw >> 1) ^ -(raw & 1), position


def size_of_unsigned_varint(value: int) -> int:
    """Bytes that `encode_unsigned_varint` makes of the value."""
    return (value.bit_length() + 6) // 7 or 1


def size_of_varint(value: int) -> int:
    """Bytes that `encode_varint` makes of the value."""
    return size_of_unsigned_varint(value << 1 if value >= 0 else (-value << 1) - 1)


size_of_varlong = size_of_varint


def _decode(buffer: Buffer, position: int, max_bytes: int, bits: int) -> tuple[int, int]:
    start = position
    value = shift = 0
    try:
        while True:
            byte = buffer[position]
            position += 1
            value |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            if position - start >= max_bytes:
                raise DecodeError("varint", "", start, f"longer than {max_bytes} bytes")
    except IndexError:
        raise DecodeError("varint", "", start, "the buffer ends inside") from None
    if value >> bits:
        raise DecodeError("varint", "", start, f"wider than {bits} bits")
    return value, position


_ONE_BYTE = [bytes((value,)) for value in range(128)]
