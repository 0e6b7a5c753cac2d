"""Which records a request asks for: partitions, where they begin, the direction, decoders."""

from __future__ import annotations

from typing import Final

from console.decoding.decoders import NAMES
from console.decoding.record_decoder import RecordDecoder
from console.decoding.registry_decoder import REGISTRY
from console.messages.cursor import Bounds, parse_cursor
from console.messages.topic_log import Page, TopicLog
from console.rest.call import Call
from console.rest.errors import PARTITION_NOT_FOUND, RestError
from console.rest.operation import Parameter

MAX_PARTITIONS: Final = 200
"""Partitions of one page."""
DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 500
NEWER: Final = "NEWER"
OLDER: Final = "OLDER"
SELECTION: Final = (
    Parameter("partitions"),
    Parameter("from"),
    Parameter("at"),
    Parameter("direction", choices=(NEWER, OLDER)),
    Parameter("transactions", choices=("COMMITTED", "ALL")),
)
"""`from`: newest, oldest, offset:N or time:MS. `at`: a place that an earlier answer has given, instead of `from`."""
_DECODER_NAMES: Final = (*NAMES, REGISTRY)
DECODERS: Final = (Parameter("key_decoder"), Parameter("value_decoder"), Parameter("header_decoder"))


class Selection:
    """The records that a request asks for. `left_out`: how many partitions are more than one page can have."""

    def __init__(self, log: TopicLog, begin: Bounds, *, is_newer: bool, left_out: int) -> None:
        self.log = log
        self.begin = begin
        self.is_newer = is_newer
        self.left_out = left_out

    @classmethod
    async def of(cls, call: Call) -> Selection:
        """Return the selection of a request. Raises RestError, KafkaError."""
        query = call.query
        kind, number = _begin(query.get("from", "newest"))
        given = parse_cursor(query["at"]) if "at" in query else None
        topic = await call.topic()
        chosen = _partitions(query.get("partitions"), set(topic.partitions), topic.name)
        partitions = chosen[:MAX_PARTITIONS]
        log = TopicLog(call.admin, topic, partitions, shows_all=query.get("transactions") == "ALL")
        await log.open()
        if given is not None:
            begin = {one: given[one] for one in partitions if one in given}
        elif kind == "offset":
            begin = dict.fromkeys(partitions, number)
        elif kind == "time":
            begin = await log.offsets(number)
        else:
            begin = {}
        is_newer = query.get("direction", OLDER if kind == "newest" else NEWER) == NEWER
        return cls(log, begin, is_newer=is_newer, left_out=len(chosen) - len(partitions))

    async def page(self, limit: int) -> Page:
        """Return one page."""
        return await (self.log.newer if self.is_newer else self.log.older)(self.begin, limit)


def decoder_of(call: Call) -> RecordDecoder:
    """Return the decoder that a request asks for. Raises RestError."""
    key, value, header = (call.query.get(one.name, "auto").lower() for one in DECODERS)
    for name in (key, value, header):
        if name not in _DECODER_NAMES:
            raise RestError(400, f"there is no decoder {name[:40]!r}, only {', '.join(_DECODER_NAMES)}")
    return RecordDecoder(call.topic_name, key, value, call.services.schemas, header)


def limit_of(call: Call, default: int = DEFAULT_LIMIT, most: int = MAX_LIMIT) -> int:
    """Return the number of records that a request asks for. Raises RestError."""
    return number_in(call.query.get("limit", str(default)), "limit", most, least=1)


def number_in(text: str, name: str, most: int, *, least: int = 0) -> int:
    """Return a number. Raises RestError."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or not least <= int(text) <= most:
        raise RestError(400, f"{name} must be a number from {least} to {most}, not {text[:40]!r}")
    return int(text)


def _begin(text: str) -> tuple[str, int]:
    kind, _, number = text.partition(":")
    if kind in ("newest", "oldest") and not number:
        return kind, 0
    if kind in ("offset", "time"):
        return kind, number_in(number, f"from={kind}:", 2**63 - 1)
    raise RestError(400, f"from must be newest, oldest, offset:NUMBER or time:MILLISECONDS, not {text[:40]!r}")


def _partitions(text: str | None, known: set[int], topic: str) -> list[int]:
    if text is None:
        return sorted(known)
    found = sorted({number_in(one, "partitions", 2**31 - 1) for one in text.split(",")})
    for one in found:
        if one not in known:
            raise RestError(404, f"topic {topic} has no partition {one}", PARTITION_NOT_FOUND)
    return found
