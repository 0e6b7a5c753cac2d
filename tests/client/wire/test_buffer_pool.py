"""A buffer is lent again when nobody looks at it any more, and not before."""

import numpy as np
import pyarrow as pa
import pytest

from client.wire.buffer_pool import MOST, BufferPool


@pytest.mark.parametrize(
    "look",
    [
        memoryview,
        lambda buffer: memoryview(buffer)[5:6],
        lambda buffer: np.frombuffer(memoryview(buffer), dtype=np.uint8)[3:],
        lambda buffer: pa.py_buffer(memoryview(buffer)[2:]).slice(1),
    ],
)
def test_a_buffer_with_a_view_is_not_reused(look):
    pool = BufferPool()
    buffer = bytearray(b"content" * 10)
    view = look(buffer)
    pool.give(buffer)
    assert pool.take(70) is None
    assert not pool.forget_one()
    del view
    assert pool.take(70) is buffer
    assert buffer == b"content" * 10
    assert len(pool) == 0


def test_a_buffer_has_a_fitting_size():
    pool = BufferPool()
    pool.give(bytearray(100))
    assert pool.take(101) is None
    assert pool.take(49) is None  # else a view of 49 bytes kept 100
    found = pool.take(50)
    assert found is not None
    assert len(found) == 100


def test_the_number_of_buffers_is_bounded():
    pool = BufferPool()
    views = []
    for number in range(MOST + 2):
        buffer = bytearray(100 + number)
        views.append(memoryview(buffer))
        pool.give(buffer)
        assert len(pool) == min(number + 1, MOST)
    del views[:2]
    assert pool.take(100) is None  # the oldest two are forgotten
    del views[0]
    pool.give(bytearray(1000))
    assert pool.take(100) is None  # a free one is, before those that are looked at
    assert len(pool) == MOST
    views.clear()
    assert len(pool.take(100)) == 103


def test_memory_is_released():
    pool = BufferPool()
    for _ in range(2):
        pool.give(bytearray(100))
    assert pool.forget_one()
    assert pool.forget_one()
    assert not pool.forget_one()
    assert pool.take(100) is None
