"""The decoder of `record_columns` as one compiled loop, several times as fast as numpy. Needs the extra `numba`.

Compiling takes seconds, and its result is cached on disk if possible; loading takes almost one second. `RecordColumns`
therefore uses this module only after a process has decoded so many records that it pays.
"""

from typing import Final

import numba
import numpy as np
from numpy.typing import NDArray

COLUMNS: Final = 9
_LONGEST_VARINT: Final = 10
_MALFORMED: Final = -1


@numba.njit(cache=True, nogil=True)
def fill(
    buffer: NDArray[np.uint8], spans: NDArray[np.int64], counts: NDArray[np.int64], out: NDArray[np.int64]
) -> bool:
    """Decode all records of the batches at `spans` (begin, end); `counts` are the batches' record counts.

    The rows of `out` become timestamp deltas, offset deltas, key lengths and starts, value lengths and starts,
    positions of the header counts, header counts, ends. Return False if a record is malformed.
    """
    row = 0
    for batch in range(len(counts)):
        at, batch_end = spans[batch, 0], spans[batch, 1]
        for _ in range(counts[batch]):
            length, at = _varint(buffer, at, batch_end)
            if at < 0 or length < 0 or length > batch_end - at:
                return False
            end = at + length
            # Skip the attributes (one byte), which have no meaning yet.
            out[0, row], at = _varint(buffer, at + 1, end)
            if at < 0:
                return False
            out[1, row], at = _varint(buffer, at, end)
            if at < 0:
                return False
            for kind in (2, 4):
                size, at = _varint(buffer, at, end)
                if at < 0:
                    return False
                out[kind, row], out[kind + 1, row] = size, at
                if size > 0:
                    if size > end - at:
                        return False
                    at += size
            out[6, row] = at
            out[7, row], at = _varint(buffer, at, end)
            if at < 0 or out[7, row] < 0 or (out[7, row] == 0 and at != end):
                return False
            out[8, row] = at = end
            row += 1
        if at != batch_end:
            return False
    return True


@numba.njit(cache=True, nogil=True, inline="always")
def _varint(buffer: NDArray[np.uint8], at: int, end: int) -> tuple[int, int]:
    """Return the zigzag varint at `at` and the position after it, which is negative if the varint is malformed."""
    number = np.uint64(0)
    for place in range(_LONGEST_VARINT):
        if at >= end:
            return 0, _MALFORMED
        byte = buffer[at]
        at += 1
        number |= np.uint64(byte & 0x7F) << np.uint64(7 * place)
        if byte < 0x80:
            return int(np.int64(number >> np.uint64(1)) ^ -np.int64(number & np.uint64(1))), at
    return 0, _MALFORMED
