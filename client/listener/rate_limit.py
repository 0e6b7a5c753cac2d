"""A limit of records or bytes per second: a token bucket. Needs the extra `rate-limit` (aiolimiter)."""

import asyncio
from collections.abc import Sequence

from client.consumer.fetched import ConsumerRecord
from client.options import check_range, refuse


class RateLimit:
    """`RateLimit(records=200)` or `RateLimit(bytes=1_000_000)`: the average number per second.

    `burst` (None: the amount of one second) is the capacity of the bucket: this much may pass at once after a pause,
    and in any second at most rate and burst together. Bytes are those of keys and values. Several containers in one
    event loop may share a limit.

    Raises InvalidOptionError, and ModuleNotFoundError if aiolimiter is not installed.
    """

    def __init__(
        self,
        *,
        records: float | None = None,
        bytes: float | None = None,  # noqa: A002 - reads as what it is
        burst: float | None = None,
    ) -> None:
        if (records is None) == (bytes is None):
            raise refuse("records", records, "a rate limit needs either records= or bytes=")
        rate = records if bytes is None else bytes
        assert rate is not None
        if rate <= 0:
            raise refuse("records" if bytes is None else "bytes", rate, "must be above 0")
        self._size = max(rate, 1) if burst is None else burst
        check_range("burst", self._size, 1)
        try:
            from aiolimiter import AsyncLimiter  # optional
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "RateLimit needs aiolimiter: pip install 'ottla[rate-limit]'", name=error.name
            ) from error
        # aiolimiter's bucket drains instead of filling up, which has the same effect.
        self._bucket = AsyncLimiter(self._size, self._size / rate)
        # The bucket serves small amounts before large ones, which could wait for ever.
        self._turn = asyncio.Lock()
        self._counts_bytes = bytes is not None

    async def wait(self, records: Sequence[ConsumerRecord]) -> None:
        """Wait until these records may pass."""
        await self.take(sum(map(_size_of, records)) if self._counts_bytes else len(records))

    async def take(self, amount: float) -> None:
        """Take `amount` tokens, first come first served. More than the bucket's capacity is taken in parts."""
        async with self._turn:
            while amount > 0:
                part = min(amount, self._size)
                await self._bucket.acquire(part)
                amount -= part


def _size_of(record: ConsumerRecord) -> int:
    return sum(len(part) for part in (record.key, record.value) if isinstance(part, (bytes, str)))
