"""Prints the records that pass the filters on standard output, up to a number of them."""

import sys
from collections.abc import Callable, Sequence

from client.consumer.fetched import ConsumerRecord
from ottla.records.record_filter import Matches

Write = Callable[[ConsumerRecord], bytes]


class RecordPrinter:
    """Prints records with `write` if they pass `matches`; `left` is how many more it prints (None: no limit)."""

    def __init__(self, write: Write, matches: Matches | None, count: int | None) -> None:
        self._write = write
        self._matches = matches
        self.left = count

    @property
    def is_done(self) -> bool:
        """Whether the last record is printed."""
        return self.left == 0

    async def put(self, records: Sequence[ConsumerRecord]) -> None:
        """Print those of the records that pass the filters, until none is left to print."""
        if self._matches is not None:
            records = list(filter(self._matches, records))
        if self.left is not None:
            records = records[: self.left]
            self.left -= len(records)
        _print(b"".join([self._write(record) for record in records]))


def _print(written: bytes) -> None:
    if written:
        sys.stdout.buffer.write(written)
        sys.stdout.buffer.flush()
