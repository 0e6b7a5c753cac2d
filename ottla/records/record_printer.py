"""Prints the records that pass the filters on standard output, up to a number of them."""

import sys
from collections.abc import Awaitable, Callable, Sequence

from client.consumer.fetched import ConsumerRecord
from ottla.records.record_filter import Matches

Decode = Callable[[ConsumerRecord], Awaitable[ConsumerRecord]]
Write = Callable[[ConsumerRecord], bytes]


class RecordPrinter:
    """Prints records with `write` if they pass `matches`; `left` is how many more it prints (None: no limit).

    `decode` decodes each record before, if it is set.
    """

    def __init__(self, write: Write, matches: Matches | None, count: int | None) -> None:
        self._write = write
        self._matches = matches
        self.decode: Decode | None = None
        self.left = count

    @property
    def is_done(self) -> bool:
        """Whether the last record is printed."""
        return self.left == 0

    async def put(self, records: Sequence[ConsumerRecord]) -> None:
        """Print those of the records that pass the filters, until none is left to print.

        Raises CommandError for a record that cannot be decoded, after the records before it are printed.
        """
        if self.decode is None:
            self._put([one for one in records if self._matches(one)] if self._matches is not None else records)
            return
        passed: list[ConsumerRecord] = []
        try:
            for record in records:
                if len(passed) == self.left:
                    break
                decoded = await self.decode(record)
                if self._matches is None or self._matches(decoded):
                    passed.append(decoded)
        finally:
            self._put(passed)

    def _put(self, records: Sequence[ConsumerRecord]) -> None:
        if self.left is not None:
            records = records[: self.left]
            self.left -= len(records)
        _print(b"".join([self._write(record) for record in records]))


def _print(written: bytes) -> None:
    if written:
        sys.stdout.buffer.write(written)
        sys.stdout.buffer.flush()
