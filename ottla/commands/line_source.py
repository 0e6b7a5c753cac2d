"""Read the lines of a file or of standard input without blocking the event loop.

A line ends with a newline, except perhaps the last one. Lines are bytes and need not be valid text. Lines are yielded
as soon as they arrive, even if they do not fill a block: the user may be typing.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import BinaryIO

BLOCK_SIZE = 1024 * 1024


async def read_lines(source: BinaryIO) -> AsyncIterator[list[bytes]]:
    """Yield the lines of every block read, without their newlines. `source` must have `read1`."""
    read = getattr(source, "read1", source.read)
    rest: list[bytes] = []
    while block := await asyncio.to_thread(read, BLOCK_SIZE):
        *complete, last = block.split(b"\n")
        if complete:
            complete[0] = b"".join([*rest, complete[0]])
            rest = []
            yield complete
        if last:
            rest.append(last)
    if rest:
        yield [b"".join(rest)]
