r"""The subject of a certificate as text: RFC 2253, as Java writes it, so that ACLs of Kafka name the same users.

    CN=kafka.client,OU=Dev\+Ops,O=My\, Org,C=DE

The last part of the certificate comes first. Nine types of attributes have a name; others are an object identifier, and
their value is `#` and its DER encoding in hex. Java escapes more characters than RFC 2253 asks for (`=` and `#`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_KEYWORDS: Final = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
_TEXT_TAGS: Final = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""UTF8, Printable, T61, IA5, General and BMP strings: Java reads all of them as UTF-8."""
_ESCAPED: Final = frozenset(',=+<>#;"\\')
_VERSION: Final = 0xA0


class NameFormatError(Exception):
    """The bytes are no certificate, or contain a name that cannot be read."""


def subject_of(certificate: bytes) -> str:
    """Return the subject of a certificate (DER). Raises NameFormatError."""
    try:
        return _text(_subject(certificate))
    except (IndexError, StopIteration, ValueError):
        raise NameFormatError("the subject of the certificate cannot be read") from None


def _subject(certificate: bytes) -> bytes:
    fields = [(tag, value) for tag, value, _ in _values(_first(_first(certificate)))]
    if fields[0][0] == _VERSION:  # optional; then: serial number, algorithm, issuer, validity, subject
        del fields[0]
    return fields[4][1]


def _text(name: bytes) -> str:
    parts = []
    for _, part, _ in _values(name):
        parts.append("+".join(_attribute(attribute) for _, attribute, _ in _values(part)))
    return ",".join(reversed(parts))


def _attribute(attribute: bytes) -> str:
    (_, identifier, _), (tag, value, encoded) = _values(attribute)
    number = _identifier(identifier)
    keyword = _KEYWORDS.get(number)
    if keyword is None or tag not in _TEXT_TAGS:
        return f"{keyword or number}=#{encoded.hex()}"
    return f"{keyword}={_escaped(value.decode(errors='replace'))}"


def _escaped(text: str) -> str:
    """Escape special characters, and spaces (and carriage returns) at both ends."""
    written = "".join(f"\\{one}" if one in _ESCAPED else "\\00" if one == "\0" else one for one in text)
    blank = " \r"
    begin = len(written) - len(written.lstrip(blank))
    end = len(written.rstrip(blank))
    if begin >= end:
        return "".join(f"\\{one}" for one in written)
    ends = ["".join(f"\\{one}" for one in blanks) for blanks in (written[:begin], written[end:])]
    return f"{ends[0]}{written[begin:end]}{ends[1]}"


def _identifier(data: bytes) -> str:
    numbers = []
    number = 0
    for byte in data:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


def _first(data: bytes) -> bytes:
    return next(_values(data))[1]


def _values(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield tag, content and whole encoding of each DER value in `data`. Raises IndexError, ValueError."""
    at = 0
    while at < len(data):
        length, begin = data[at + 1], at + 2
        if length >= 0x80:
            begin += length & 0x7F
            length = int.from_bytes(data[at + 2 : begin])
        end = begin + length
        if end > len(data):
            raise ValueError("a value is longer than its container")
        yield data[at], data[begin:end], data[at:end]
        at = end
