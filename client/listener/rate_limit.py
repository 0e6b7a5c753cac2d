"""At most so many records, or bytes, a second: a token bucket. Needs the extra `rate-limit` (aiolimiter)."""

import asyncio
from collections.abc import Sequence

from client.consumer.fetched import ConsumerRecord
from client.options import check_range, refuse


class RateLimit:
    """`RateLimit(records=200)` or `RateLimit(bytes=1_000_000)`: on average so many a second.

    `burst` (None: those of one second) is what the bucket holds: so much may go at once after a rest, and in any second
    no more than rate and burst together. Bytes are those of keys and values. One limit may serve several containers of
    an event loop, which then share it.

    Raises InvalidOptionError, and ModuleNotFoundError where aiolimiter is not installed.
    """

    def __init__(
        self,
        *,
        records: float | None = None,
        bytes: float | None = None,  # noqa: A002 - reads as what it is
        burst: float | None = None,
    ) -> None:
        if (records is None) == (bytes is None):
            raise refuse("records", records, "a rate limit is over records= or over bytes=, one of them")
        rate = records if bytes is None else bytes
        assert rate is not None
        if rate <= 0:
            raise refuse("records" if bytes is None else "bytes", rate, "must be above 0")
        self._size = max(rate, 1) if burst is None else burst
        check_range("burst", self._size, 1)
        try:
            from aiolimiter import AsyncLimiter
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "RateLimit needs aiolimiter: pip install 'ottla[rate-limit]'", name=error.name
            ) from error
        # Its bucket runs out instead of filling up, which comes to the same.
        self._bucket = AsyncLimiter(self._size, self._size / rate)
        # The bucket lets small amounts go before large ones, which could wait for ever.
        self._turn = asyncio.Lock()
        self._counts_bytes = bytes is not None

    async def wait(self, records: Sequence[ConsumerRecord]) -> None:
        """Wait until these may go."""
        await self.take(sum(map(_size_of, records)) if self._counts_bytes else len(records))

    async def take(self, amount: float) -> None:
        """Take so many tokens, first come first served. More than the bucket holds are waited for in parts."""
        async with self._turn:
            while amount > 0:
                part = min(amount, self._size)
                await self._bucket.acquire(part)
                amount -= part


def _size_of(record: ConsumerRecord) -> int:
    return sum(len(part) for part in (record.key, record.value) if isinstance(part, (bytes, str)))
