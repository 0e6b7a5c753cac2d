"""Large buffers that are used again once nobody looks at their bytes any more.

A buffer that is new costs more than receiving into it: its memory is fetched from the system page by page and filled
with zeros. Whoever has a memoryview of a bytearray, or something made of one (an Arrow column, a numpy array), keeps
its size from being changed: that is how the pool sees that it is still looked at, and needs not be told.
"""

from typing import Final

MOST: Final = 8
"""Buffers that are kept in mind: as many as a reader may have fetched ahead and not handed out."""
_FEW_TIMES_LARGER: Final = 2


class BufferPool:
    """What was lent is given back at once, and lent again when it is free."""

    __slots__ = ("_buffers",)

    def __init__(self) -> None:
        # The one longest ago first.
        self._buffers: list[bytearray] = []

    def __len__(self) -> int:
        return len(self._buffers)

    def take(self, size: int) -> bytearray | None:
        """A free buffer of so many bytes or some more (not many: a view of a few bytes keeps all of it), no longer in
        the pool; None where there is none.
        """
        for place, buffer in enumerate(self._buffers):
            if size <= len(buffer) <= _FEW_TIMES_LARGER * size and _is_free(buffer):
                return self._buffers.pop(place)
        return None

    def give(self, buffer: bytearray) -> None:
        """Keep a buffer in mind that may still be looked at. Where there are too many another one is forgotten."""
        if len(self._buffers) == MOST and not self.forget_one():
            del self._buffers[0]
        self._buffers.append(buffer)

    def forget_one(self) -> bool:
        """Give the memory of a free buffer back to the system; False where none is free."""
        for place, buffer in enumerate(self._buffers):
            if _is_free(buffer):
                del self._buffers[place]
                return True
        return False


def _is_free(buffer: bytearray) -> bool:
    try:
        buffer.append(buffer.pop())  # one byte less and one more are room that it has: nothing is copied
    except BufferError:
        return False
    return True
