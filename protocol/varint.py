"""Variable-length integers: seven bits per byte, least significant first; the high bit means that a byte follows.

Lengths and tags of flexible versions are unsigned and have at most 32 bits (5 bytes). Numbers in records are zigzag
encoded and have 32 bits (5 bytes) or 64 bits (10 bytes). Decoders read short ones inline and long ones with
`faults.read_uvarint` and `record.long_varint`.
"""

from __future__ import annotations


def encode_unsigned_varint(value: int) -> bytes:
    """Encode 0 <= value < 2**64; raises ValueError for other values."""
    if 0 <= value < 128:
        return _ONE_BYTE[value]
    if not 0 <= value < 1 << 64:
        raise ValueError(f"not an unsigned varint: {value}")
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


_ONE_BYTE = [bytes((value,)) for value in range(128)]
