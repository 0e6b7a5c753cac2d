"""The partition of each key of an Arrow column: as `partitioner` computes for one key, but for all keys together.

Murmur2 processes four bytes per step, so keys of the same length are hashed together, one step for all at a time.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

_SEED: Final = np.uint32(0x9747B28C)
_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_R: Final = np.uint32(24)

Hashes = npt.NDArray[np.uint32]


def partitions_of_keys(keys: pa.Array, count: int) -> npt.NDArray[np.int64]:
    """The partition (0 to `count` - 1) of each key of a binary column; -1 for a null."""
    keys = keys.cast(pa.large_binary())
    offsets = np.frombuffer(keys.buffers()[1], np.int64)[keys.offset : keys.offset + len(keys) + 1]
    data = keys.buffers()[2]
    content: npt.NDArray[np.uint8] = np.frombuffer(data if data is not None else b"", np.uint8)
    lengths = np.diff(offsets)
    found = np.empty(len(keys), np.int64)
    for length in np.unique(lengths):
        chosen = np.flatnonzero(lengths == length)
        rows = content[offsets[chosen][:, None] + np.arange(length)]
        found[chosen] = (_murmur2(rows) & np.uint32(0x7FFFFFFF)) % np.uint32(count)
    if keys.null_count:
        found[keys.is_null().to_numpy(zero_copy_only=False)] = -1
    return found


def _murmur2(rows: npt.NDArray[np.uint8]) -> Hashes:
    """The hash of each row of a matrix of bytes."""
    count, length = rows.shape
    whole = length & ~3
    words = np.ascontiguousarray(rows[:, :whole]).view("<u4")
    value: Hashes = np.full(count, _SEED ^ np.uint32(length), np.uint32)
    for place in range(whole // 4):
        word = words[:, place] * _MULTIPLIER
        word = (word ^ (word >> _R)) * _MULTIPLIER
        value = (value * _MULTIPLIER) ^ word
    if whole < length:
        tail = np.zeros((count, 4), np.uint8)
        tail[:, : length - whole] = rows[:, whole:]
        value = (value ^ tail.view("<u4")[:, 0]) * _MULTIPLIER
    value = (value ^ (value >> np.uint32(13))) * _MULTIPLIER
    return value ^ (value >> np.uint32(15))
