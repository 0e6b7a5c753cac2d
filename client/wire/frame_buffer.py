"""Splits a TCP stream into Kafka frames: a size of four bytes (big endian, signed), then that many bytes.

`FrameBuffer` is pure: it provides the buffer to receive into and returns the complete frames, so it is tested without a
socket. Small frames are received together into one scratch buffer, and each complete frame is copied out of it once. A
frame larger than half of the scratch buffer gets its own buffer and is returned as a view of it: the records of a Fetch
answer are views into this buffer, which lives as long as they do. The buffer is reused from an earlier frame without
views, or it is new. A new buffer grows with the bytes received and not to the announced size (a frame that only
announces 2 GiB costs nothing).
"""

from client.wire.buffer_pool import BufferPool

SCRATCH_SIZE = 64 * 1024
FIRST_GROWTH = 1024 * 1024
GROWTH = 4
SIZE_PREFIX = 4
# The start of an HTTP answer, read as a size: 1.2 GB.
HTTP_SIZE = int.from_bytes(b"HTTP", "big")
# The start of a TLS alert, which a TLS server sends to a client that speaks plain text.
TLS_ALERT = 0x1503


class FrameError(ValueError):
    """The bytes received are not a frame, or not the expected one: the rest of the stream cannot be read."""


class FrameBuffer:
    """Receive buffer of one connection. `max_frame_size` bounds the announced size, in bytes."""

    __slots__ = ("_frame", "_frame_filled", "_frame_size", "_max_frame_size", "_pool", "_scratch", "_scratch_filled")

    def __init__(self, max_frame_size: int) -> None:
        self._max_frame_size = max_frame_size
        self._scratch = memoryview(bytearray(SCRATCH_SIZE))
        self._scratch_filled = 0
        self._pool = BufferPool()
        # The frame with its own buffer. Invariant: filled <= len(frame) and filled <= size.
        self._frame: bytearray | None = None
        self._frame_filled = 0
        self._frame_size = 0

    def close(self) -> None:
        """Drop all buffers: nothing is received any more."""
        self._scratch = memoryview(bytearray())
        self._pool = BufferPool()
        self._frame = None

    def writable(self) -> memoryview:
        """The buffer for the next bytes; never empty."""
        frame = self._frame
        if frame is None:
            return self._scratch[self._scratch_filled :]
        if self._frame_filled == len(frame):
            # A new object: the transport may still hold a view into the old one, which forbids resizing it.
            grown = bytearray(min(_capacity(self._frame_size), GROWTH * len(frame)))
            grown[: self._frame_filled] = frame
            self._frame = frame = grown
        return memoryview(frame)[self._frame_filled : self._frame_size]

    def received(self, count: int) -> list[bytes | memoryview]:
        """Account for `count` bytes written into `writable()`; return the completed frames, without size prefix.

        Raises FrameError for a size that is negative or over the limit; the message says if an HTTP or a TLS server
        answers.
        """
        if self._frame is not None:
            self._frame_filled += count
            if self._frame_filled < self._frame_size:
                return []
            whole = self._frame
            self._frame = None
            self._pool.give(whole)
            return [memoryview(whole)[: self._frame_size]]
        self._scratch_filled += count
        return self._split_scratch()

    def _split_scratch(self) -> list[bytes | memoryview]:
        scratch, filled = self._scratch, self._scratch_filled
        frames: list[bytes | memoryview] = []
        position = 0
        while filled - position >= SIZE_PREFIX:
            size = int.from_bytes(scratch[position : position + SIZE_PREFIX], "big", signed=True)
            if size < 0 or size > self._max_frame_size:
                raise FrameError(_refusal(size, self._max_frame_size))
            start = position + SIZE_PREFIX
            if size <= filled - start:
                frames.append(bytes(scratch[start : start + size]))
                position = start + size
                if self._pool:
                    self._pool.forget_one()  # answers have become small
                continue
            if size > SCRATCH_SIZE // 2:
                self._frame = self._pool.take(size) or bytearray(min(_capacity(size), FIRST_GROWTH))
                self._frame[: filled - start] = scratch[start:filled]
                self._frame_filled = filled - start
                self._frame_size = size
                position = filled
            break
        if position:
            remaining = filled - position
            scratch[:remaining] = bytes(scratch[position:filled])
            self._scratch_filled = remaining
        return frames


def _refusal(size: int, max_frame_size: int) -> str:
    if size == HTTP_SIZE:
        return "an HTTP server answers there, perhaps a console; the broker listens on another port, by default 9092"
    if size >> 16 == TLS_ALERT:
        return "the listener expects TLS: set security_protocol to SSL or SASL_SSL"
    return f"frame size {size} is not between 0 and {max_frame_size}"


def _capacity(size: int) -> int:
    """The capacity of a buffer for a frame: some more, so that it can be reused for frames of about the same size."""
    return size + size // 8
