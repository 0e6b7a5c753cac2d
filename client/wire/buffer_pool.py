"""Large buffers that are reused when no view of their bytes exists any more.

A new buffer costs more than receiving into it: the system provides its memory page by page, filled with zeros. A
memoryview of a bytearray, or an object made from one (an Arrow column, a numpy array), prevents a change of the
bytearray's size. The pool tries such a change, so it finds free buffers without being notified.
"""

from typing import Final

MOST: Final = 8
"""The number of buffers kept: as many as a reader may have fetched and not yet returned."""
_FEW_TIMES_LARGER: Final = 2


class BufferPool:
    """Buffers that are given to the pool while they may still be in use, and taken again when they are free."""

    __slots__ = ("_buffers",)

    def __init__(self) -> None:
        # Oldest first.
        self._buffers: list[bytearray] = []

    def __len__(self) -> int:
        return len(self._buffers)

    def take(self, size: int) -> bytearray | None:
        """Remove and return a free buffer of at least `size` bytes; None if there is none. The buffer is at most twice
        as large, because even a view of a few bytes keeps all of it.
        """
        for place, buffer in enumerate(self._buffers):
            if size <= len(buffer) <= _FEW_TIMES_LARGER * size and _is_free(buffer):
                return self._buffers.pop(place)
        return None

    def give(self, buffer: bytearray) -> None:
        """Keep a buffer that may still be in use. If there are too many, another buffer is dropped."""
        if len(self._buffers) == MOST and not self.forget_one():
            del self._buffers[0]
        self._buffers.append(buffer)

    def forget_one(self) -> bool:
        """Drop a free buffer, which returns its memory to the system; False if no buffer is free."""
        for place, buffer in enumerate(self._buffers):
            if _is_free(buffer):
                del self._buffers[place]
                return True
        return False


def _is_free(buffer: bytearray) -> bool:
    try:
        buffer.append(buffer.pop())  # the bytearray has room for the byte: nothing is copied
    except BufferError:
        return False
    return True
