"""Read the lines of a file or of standard input without blocking the event loop.

A line ends with a newline, except perhaps the last one. Lines are bytes and need not be valid text. Lines are yielded
as soon as they arrive, even if they do not fill a block: the user may be typing.
"""

import asyncio
import os
import select
import selectors
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO

BLOCK_SIZE = 1024 * 1024


def open_source(path: Path) -> BinaryIO:
    """Open a file for `read_lines`; a FIFO without waiting for its writer. Raises OSError."""

    def opener(name: str, flags: int) -> int:
        descriptor = os.open(name, flags | os.O_NONBLOCK)
        os.set_blocking(descriptor, True)
        return descriptor

    return open(path, "rb", opener=opener)


async def read_lines(source: BinaryIO) -> AsyncIterator[list[bytes]]:
    """Yield the lines of every block read, without their newlines. `source` must have `read1`.

    If the source is a terminal that is closed, SIGHUP is raised, unless it is ignored: the end of the input may be seen
    before the kernel's signal.
    """
    is_terminal = source.isatty()
    rest: list[bytes] = []
    while block := await _next_block(source):
        *complete, last = block.split(b"\n")
        if complete:
            complete[0] = b"".join([*rest, complete[0]])
            rest = []
            yield complete
        if last:
            rest.append(last)
    if is_terminal and _is_closed(source) and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.raise_signal(signal.SIGHUP)
        await asyncio.get_running_loop().create_future()  # until the handler of the signal cancels this task
    if rest:
        yield [b"".join(rest)]


async def _next_block(source: BinaryIO) -> bytes:
    """Wait for bytes and return them; empty at the end.

    A terminal or a pipe is read when it is readable, without a thread. A thread that waits for a terminal cannot be
    stopped: after Ctrl-C, the command would wait for the next line, and the shell would not get this line.
    """
    read = getattr(source, "read1", source.read)
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(source, selectors.EVENT_READ)
        except (PermissionError, ValueError):  # a regular file, which is always readable; not a file
            return await asyncio.to_thread(read, BLOCK_SIZE)
        # The loop waits for the selector: uvloop makes what it waits for non-blocking, here for the shell, too.
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(selector.fileno(), readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(selector.fileno())
    try:
        return read(BLOCK_SIZE)
    except OSError:  # EIO: a terminal that is being closed
        if not _is_closed(source):
            raise
        return b""


def _is_closed(source: BinaryIO) -> bool:
    """Return whether the other side of a terminal or a pipe is closed."""
    poll = select.poll()
    poll.register(source, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))
