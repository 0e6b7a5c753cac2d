"""Frames come out whole and in order however the stream was cut."""

import random
import sys

import pytest

from client.wire.buffer_pool import MOST
from client.wire.connection import DEFAULT_MAX_RESPONSE_SIZE
from client.wire.frame_buffer import FIRST_GROWTH, SCRATCH_SIZE, FrameBuffer, FrameError


def feed(buffer, data, cuts):
    frames = []
    position = 0
    for cut in cuts:
        while position < cut:
            view = buffer.writable()
            assert len(view) > 0
            count = min(len(view), cut - position)
            view[:count] = data[position : position + count]
            position += count
            frames += [bytes(frame) for frame in buffer.received(count)]
    return frames


def framed(bodies):
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


@pytest.mark.parametrize("seed", range(20))
def test_any_split_gives_the_same_frames(seed):
    rng = random.Random(seed)
    sizes = [
        rng.choice([0, 1, 5, 100, 3000, SCRATCH_SIZE // 2, SCRATCH_SIZE // 2 + 1, SCRATCH_SIZE, 300_000])
        for _ in range(30)
    ]
    bodies = [rng.randbytes(size) for size in sizes]
    data = framed(bodies)
    cuts = [*sorted({rng.randrange(len(data)) for _ in range(rng.choice([0, 3, 200]))}), len(data)]
    assert feed(FrameBuffer(10**6), data, cuts) == bodies


def test_byte_by_byte():
    bodies = [b"", b"a", b"bc" * 40]
    data = framed(bodies)
    assert feed(FrameBuffer(1000), data, range(1, len(data) + 1)) == bodies


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
def test_impossible_size(size):
    buffer = FrameBuffer(1000)
    buffer.writable()[:4] = size.to_bytes(4, "big", signed=True)
    with pytest.raises(FrameError, match=str(size)):
        buffer.received(4)


@pytest.mark.parametrize("answer", [b"HTTP/1.0 400 Bad Request\r\n", b"HTTP/1.1 200 OK\r\n", b"HTTP"])
def test_an_http_server_is_recognised(answer):
    buffer = FrameBuffer(10**6)
    buffer.writable()[: len(answer)] = answer
    with pytest.raises(FrameError, match="an HTTP server answers there"):
        buffer.received(len(answer))


def test_a_tls_server_is_recognised():
    alert = bytes.fromhex("15030300020250")
    buffer = FrameBuffer(DEFAULT_MAX_RESPONSE_SIZE)
    buffer.writable()[: len(alert)] = alert
    with pytest.raises(FrameError, match="the listener expects TLS"):
        buffer.received(len(alert))


def test_an_announced_size_allocates_nothing():
    buffer = FrameBuffer(2**31 - 1)
    buffer.writable()[:4] = (2**31 - 1).to_bytes(4, "big")
    assert buffer.received(4) == []
    assert len(buffer.writable()) <= FIRST_GROWTH


def test_a_large_frame_is_not_copied_out():
    body = random.Random(1).randbytes(3 * FIRST_GROWTH)
    buffer = FrameBuffer(10**8)
    data = framed([body])
    (frame,) = list(_raw(buffer, data))
    assert isinstance(frame, memoryview)
    assert frame == body


def holders(buffers):
    """How many references there are to each, those of the caller included: how many these are depends on Python."""
    return [sys.getrefcount(one) for one in buffers.values()]


@pytest.mark.parametrize("kept", [1, 3])
def test_large_buffers_without_views_are_reused(kept):
    rng = random.Random(kept)
    buffer = FrameBuffer(10**8)
    looked_at = []
    used = {}
    for _ in range(20):
        body = rng.randbytes(rng.randrange(FIRST_GROWTH, FIRST_GROWTH + 100_000))
        (frame,) = list(_raw(buffer, framed([body])))
        used[id(frame.obj)] = frame.obj
        looked_at = [*looked_at, (frame[10:], body[10:])][-kept:]
        for view, content in looked_at:
            assert view == content
        del frame
    assert len(used) <= kept + 2
    del view
    looked_at.clear()
    for _ in range(MOST):
        assert list(_raw(buffer, framed([b"small"]))) == [b"small"]
    fresh = {number: bytearray() for number in used}
    assert holders(used) == holders(fresh)  # nobody else has them


def test_a_closed_buffer_keeps_nothing():
    buffer = FrameBuffer(10**8)
    (frame,) = list(_raw(buffer, framed([bytes(FIRST_GROWTH)])))
    received = {0: frame.obj}
    del frame
    buffer.close()
    assert holders(received) == holders({0: bytearray()})
    assert len(buffer.writable()) == 0


def _raw(buffer, data):
    position = 0
    while position < len(data):
        view = buffer.writable()
        count = min(len(view), len(data) - position)
        view[:count] = data[position : position + count]
        position += count
        yield from buffer.received(count)
