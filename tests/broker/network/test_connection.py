"""One connection over a transport in memory: every way in which frames may arrive and answers may be held up."""

import logging
import random
import struct

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from broker.network.connection import (
    CLOSE_LINGER_S,
    LARGE_FRAME_BYTES,
    MIN_CAPACITY_BYTES,
    CloseConnectionError,
)
from broker.network.limits import READ_STEP_BYTES, MemoryBudget
from broker.network.output import JOIN_BYTES
from support.connections import FakeAcceptor, Lazy, Line, Pending, echo, framed, refuse

CONNECTION = "broker.network.connection"


def line(handle=echo, **options):
    return Line(FakeAcceptor(handle, **options))


def bodies(*sizes):
    rng = random.Random(0)
    return [rng.randbytes(size) for size in sizes]


def announced(size):
    return struct.pack(">i", size)


# -- frames in ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", range(1, 2 * (4 + 5)))
def test_a_frame_may_be_split_anywhere(at):
    one = line()
    data = framed(b"first") + framed(b"secnd")
    one.feed(data[:at])
    one.feed(data[at:])
    assert one.acceptor.frames == [b"first", b"secnd"]
    assert one.answers == [b"first", b"secnd"]


def test_frames_may_arrive_byte_by_byte():
    one = line()
    sent = bodies(1, 2, 300, 3)
    one.feed(b"".join(map(framed, sent)), at_most=1)
    assert one.answers == sent


def test_many_frames_in_one_read_are_answered_in_order_in_one_write():
    one = line()
    sent = bodies(*[20] * 200)
    one.feed(b"".join(map(framed, sent)))
    assert one.answers == sent
    assert len(one.transport.written) == 1


def test_joined_answers_are_written_when_they_reach_a_size():
    one = line(lambda frame: [framed(bytes(1000))])
    one.feed(framed(b"x") * 200)
    assert [len(one.answers), *map(len, one.answers[:2])] == [200, 1000, 1000]
    assert len(one.transport.written) == 4
    assert all(len(data) <= JOIN_BYTES + 1004 for data in one.transport.written)


def test_answers_in_several_pieces_are_joined():
    one = line(lambda frame: [b"\0\0\0\4", b"ab", Lazy(b"cd")])
    one.feed(framed(b"x"))
    assert one.transport.written == [b"\0\0\0\4abcd"]


def test_a_request_without_an_answer():
    one = line(lambda frame: None if frame == b"quiet" else echo(frame))
    one.feed(framed(b"quiet") + framed(b"loud") + framed(b"quiet"))
    assert one.answers == [b"loud"]


@pytest.mark.parametrize("size", [LARGE_FRAME_BYTES - 4, LARGE_FRAME_BYTES, 100_001, 1_000_000])
def test_frames_larger_than_the_buffer(size):
    one = line()
    sent = [*bodies(size, 10, size - 1, size + 1, 3)]
    one.feed(b"".join(map(framed, sent)))
    assert one.acceptor.frames == sent
    assert one.capacity <= 2 * (size + 5)


@pytest.mark.parametrize("received", [10, MIN_CAPACITY_BYTES, 20_000, 300_000])
def test_the_buffer_grows_with_received_bytes_not_with_the_announced_size(received):
    one = line(max_request_bytes=100_000_000)
    one.feed(announced(100_000_000) + bytes(received - 4))
    assert received <= one.capacity <= max(MIN_CAPACITY_BYTES, 2 * received)
    assert one.acceptor.budget.receive_bytes == one.capacity


def test_a_large_frame_is_read_exactly_to_its_end():
    one = line()
    one.feed(framed(bytes(200_000)))  # a buffer with room for more
    large = framed(bodies(150_000)[0])
    one.feed(large[:-10])
    assert len(one.connection.get_buffer(-1)) == 10
    one.feed(large[-10:] + framed(b"next"))
    assert one.acceptor.frames[2] == b"next"
    one.feed(large)
    assert len(one.acceptor.frames) == 4


def test_small_frames_use_the_whole_buffer():
    one = line()
    for size in [*range(1, 400), 5000, 8188, 8189, 3]:
        body = bytes([size % 256]) * size
        one.feed(framed(body), at_most=777)
        assert one.acceptor.frames[-1] == body
    assert one.capacity <= 8193


@pytest.mark.parametrize("size", [0, -1, -(2**31), 1001, 2**31 - 1])
def test_an_invalid_frame_size_closes_the_connection_with_one_log_line(size, caplog):
    one = line(max_request_bytes=1000)
    with caplog.at_level(logging.INFO, CONNECTION):
        one.feed(framed(b"good") + announced(size) + bytes(100))
    assert one.transport.closing
    assert one.answers == [b"good"]  # what was answered before goes out
    assert one.acceptor.frames == [b"good"]
    assert len(caplog.records) == 1
    message = caplog.records[0].getMessage()
    assert "10.0.0.1:5000" in message
    assert str(size) in message
    assert "socket.request.max.bytes" in message


def test_the_largest_size_is_allowed():
    one = line(max_request_bytes=1000)
    one.feed(framed(bytes(1000)))
    assert len(one.acceptor.frames) == 1


def test_a_refused_frame_closes_the_connection_with_the_reason(caplog):
    one = line(refuse)
    with caplog.at_level(logging.INFO, CONNECTION):
        one.feed(framed(b"x") + framed(b"y"))
    assert one.transport.aborted  # there was nothing left to send
    assert one.acceptor.frames == [b"x"]
    assert [record.getMessage().endswith("refused") for record in caplog.records] == [True]


def test_an_answer_before_a_refused_frame_is_flushed_within_a_time_limit():
    one = line(lambda frame: refuse(frame) if frame == b"bad" else echo(frame))
    one.transport.take(0)
    one.feed(framed(b"good") + framed(b"bad"))
    assert one.transport.closing
    assert not one.transport.aborted
    [(delay_s, work)] = one.acceptor.timers
    assert delay_s == CLOSE_LINGER_S
    one.transport.take()
    assert one.answers == [b"good"]
    work()
    assert one.transport.aborted


def test_an_unexpected_exception_closes_only_its_connection(caplog):
    def broken(frame):
        raise ZeroDivisionError

    one = line(broken)
    one.feed(framed(b"x"))
    assert one.transport.closing
    assert "ZeroDivisionError" in caplog.text


# -- waiting ------------------------------------------------------------------------------------------------------


def waiting():
    """A line whose frames that begin with w wait, and the answers that they wait for."""
    answers = []

    def handle(frame):
        if frame[:1] != b"w":
            return echo(frame)
        answers.append(Pending())
        return answers[-1]

    return line(handle), answers


def test_the_next_frame_waits_for_the_answer():
    one, answers = waiting()
    one.feed(framed(b"a") + framed(b"w") + framed(b"b"))
    assert one.acceptor.frames == [b"a", b"w"]
    assert one.answers == [b"a"]  # what is there already goes out
    one.feed(framed(b"c"))  # comes meanwhile
    assert one.connection.is_busy
    answers[0].answer([framed(b"W")])
    assert one.answers == [b"a", b"W", b"b", b"c"]
    assert len(one.transport.written) == 2  # the rest goes out in one
    assert not one.connection.is_busy


def test_a_waiting_request_keeps_its_bytes():
    kept = []

    def handle(frame):
        if frame[:1] == b"w":
            kept.append(frame)
            kept.append(Pending())
            return kept[-1]
        return echo(frame)

    one = line(handle)
    body = b"w" + bodies(3000)[0]
    one.feed(framed(body))
    one.feed(b"".join(framed(bytes([i]) * 500) for i in range(20)))
    assert kept[0] == body
    assert not one.transport.reading  # the tail is full
    assert one.unread
    kept[1].answer(None)
    one.feed()
    assert one.acceptor.frames[1:] == [bytes([i]) * 500 for i in range(20)]
    assert one.transport.reading


def test_a_buffer_full_of_complete_frames_does_not_grow():
    one, _answers = waiting()
    one.transport.take(0)
    one.feed(framed(bytes(1 + JOIN_BYTES)))  # its answer blocks
    one.feed(framed(b"x" * 100) * 5000)
    assert not one.transport.reading
    assert one.acceptor.budget.receive_bytes == one.capacity
    one.transport.take()
    one.feed()
    assert len(one.answers) == 5001
    assert one.acceptor.budget.receive_bytes == one.capacity


def test_an_invalid_size_behind_a_blocked_answer_is_detected_after_the_answer():
    for size in (0, -5, 2**31 - 1):
        one = line()
        one.transport.take(0)
        one.feed(framed(bytes(1 + JOIN_BYTES)))
        one.feed(announced(size) + bytes(200_000))
        assert one.capacity <= 2 * (JOIN_BYTES + 5)
        one.transport.take()
        assert len(one.answers) == 1
        assert one.transport.closing


def test_a_waiting_answer_that_fails_closes_the_connection():
    one, answers = waiting()
    one.feed(framed(b"w") + framed(b"b"))
    answers[0].answer(CloseConnectionError("no more"))
    assert one.transport.closing
    assert one.acceptor.frames == [b"w"]


def test_a_waiting_answer_with_an_unexpected_exception_closes_the_connection(caplog):
    one, answers = waiting()
    one.feed(framed(b"w") + framed(b"b"))
    answers[0].answer(ZeroDivisionError())
    assert one.transport.closing
    assert "ZeroDivisionError" in caplog.text


def test_a_lost_connection_cancels_waiting_requests():
    one, answers = waiting()
    one.feed(framed(b"w"))
    one.lose()
    assert answers[0].abandoned
    answers[0].answer([framed(b"too late")])
    assert one.transport.written == []
    assert one.acceptor.connections == set()


def test_an_error_after_the_client_has_disconnected_is_logged():
    one, answers = waiting()
    heard = []
    one.feed(framed(b"w"))
    one.lose()
    answers[0].result = lambda: heard.append(1)
    answers[0].answer(None)
    assert heard == [1]


# -- the end of the stream -------------------------------------------------------------------------------------------


def test_a_client_without_outstanding_requests_is_closed_at_end_of_stream():
    one = line()
    one.feed(framed(b"a"))
    assert one.connection.eof_received() is False


def test_requests_sent_before_the_end_of_the_stream_are_answered():
    one, answers = waiting()
    one.feed(framed(b"w") + framed(b"b") + framed(b"w") + framed(b"c") + b"\0\0")
    assert one.connection.eof_received() is True
    answers[0].answer([framed(b"1")])
    assert not one.transport.closing
    answers[1].answer([framed(b"2")])
    assert one.answers == [b"1", b"b", b"2", b"c"]
    assert one.transport.closing
    assert not one.transport.aborted


def test_a_blocked_answer_is_sent_after_the_end_of_the_stream():
    one = line()
    one.transport.take(0)
    one.feed(framed(bytes(200_000)) + framed(b"b"))
    assert one.connection.eof_received() is True
    one.transport.take()
    assert [len(answer) for answer in one.answers] == [200_000, 1]
    assert one.transport.closing


# -- answers out -----------------------------------------------------------------------------------------------------


def test_a_large_lazy_answer_is_read_while_the_client_receives_it():
    data = bodies(5 * READ_STEP_BYTES + 17)[0]
    lazy = Lazy(data)
    one = line(lambda frame: [announced(len(data) + 2), b"<", lazy, b">"] if frame == b"fetch" else echo(frame))
    one.transport.take(0)
    one.feed(framed(b"fetch") + framed(b"next"))
    assert len(lazy.reads) == 1
    assert one.acceptor.frames == [b"fetch"]
    assert one.acceptor.budget.unsent_bytes == len(one.transport.unsent)
    for steps in range(2, 7):
        one.transport.take(READ_STEP_BYTES)
        assert len(lazy.reads) == steps
        assert len(one.transport.unsent) <= READ_STEP_BYTES + 65536
    one.transport.take()
    assert one.answers == [b"<" + data + b">", b"next"]
    assert one.acceptor.budget.unsent_bytes == 0


def test_read_steps_are_small_while_much_is_unsent():
    budget = MemoryBudget()
    budget.unsent_bytes = 1 << 30
    lazy = Lazy(bytes(READ_STEP_BYTES))
    one = line(lambda frame: [announced(len(lazy)), lazy], budget=budget)
    one.feed(framed(b"x"))
    assert {size for _, size in lazy.reads} == {65536}
    assert len(one.answers[0]) == READ_STEP_BYTES


@pytest.mark.parametrize("size", [100, JOIN_BYTES, 3 * READ_STEP_BYTES])
def test_records_that_are_not_cached_delay_only_their_own_connection(size):
    data = bodies(size)[0]
    one = line(lambda frame: [announced(size + 1), Lazy(data, cold=True), b">"] if frame == b"cold" else echo(frame))
    one.feed(framed(b"a") + framed(b"cold") + framed(b"b") + framed(b"cold") + framed(b"c"))
    assert one.acceptor.frames == [b"a", b"cold"]
    reads = 0
    while one.acceptor.readings:
        reads += one.acceptor.read_from_disk()
    assert one.answers == [b"a", data + b">", b"b", data + b">", b"c"]
    assert reads == 2 * -(-size // READ_STEP_BYTES)


def test_a_client_disconnects_while_the_disk_is_read():
    one = line(lambda frame: [announced(100), Lazy(bytes(100), cold=True)])
    one.feed(framed(b"x"))
    one.lose()
    one.acceptor.read_from_disk()
    assert len(one.transport.sent) <= 4


def test_the_stream_may_end_while_the_disk_is_read():
    one = line(lambda frame: [announced(100), Lazy(bytes(100), cold=True)])
    one.feed(framed(b"x"))
    assert one.connection.eof_received() is True
    one.acceptor.read_from_disk()
    assert one.answers == [bytes(100)]
    assert one.transport.closing


def test_small_answers_wait_behind_a_large_one():
    one = line(lambda frame: [announced(100_000), Lazy(bytes(100_000))] if frame == b"L" else echo(frame))
    one.feed(framed(b"a") + framed(b"L") + framed(b"b") + framed(b"L") + framed(b"c"))
    assert [len(answer) for answer in one.answers] == [1, 100_000, 1, 100_000, 1]


def test_nothing_more_is_read_after_a_client_disconnects_during_an_answer():
    lazy = Lazy(bytes(5 * READ_STEP_BYTES))
    one = line(lambda frame: [announced(len(lazy)), lazy])
    one.transport.take(0)
    one.feed(framed(b"x"))
    one.lose(ConnectionResetError())
    assert len(lazy.reads) == 1
    assert one.acceptor.budget.unsent_bytes == 0
    assert one.acceptor.budget.receive_bytes == 0


@pytest.mark.parametrize("size", [100, 3 * READ_STEP_BYTES])
@pytest.mark.parametrize("left", [0, 99])
@pytest.mark.parametrize("cold", [False, True])
def test_records_that_were_truncated_close_the_connection(size, left, cold, caplog):
    """What the client gets is then a part of an answer, never a wrong one."""

    class Truncated(Lazy):
        def __len__(self):
            return size

    one = line(
        lambda frame: [announced(size + 1), b"<", Truncated(bytes(left), cold)] if frame == b"fetch" else echo(frame)
    )
    with caplog.at_level(logging.INFO, CONNECTION):
        one.feed(framed(b"a") + framed(b"fetch") + framed(b"b"))
        one.acceptor.read_from_disk()
    assert one.transport.closing
    assert one.acceptor.frames == [b"a", b"fetch"]
    sent = bytes(one.transport.sent)
    assert sent.startswith(framed(b"a"))
    assert len(sent) < len(framed(b"a")) + 4 + size + 1
    if size == 100 and not cold:
        assert sent == framed(b"a")
    assert len(caplog.records) == 1
    assert "cannot be read" in caplog.text


@pytest.mark.parametrize("cold", [False, True])
def test_a_file_that_fails_closes_the_connection(cold):
    class Failing(Lazy):
        def read(self, position, size):
            raise OSError(5, "Input/output error")

    one = line(lambda frame: [announced(10), Failing(bytes(10), cold)])
    one.feed(framed(b"x"))
    one.acceptor.read_from_disk()
    assert one.transport.aborted
    assert len(one.transport.sent) <= 4


# -- memory ----------------------------------------------------------------------------------------------------------


def test_an_idle_connection_releases_its_large_buffer():
    one = line()
    one.feed(framed(bytes(500_000)))
    assert one.capacity > 400_000
    one.connection.release_idle_buffer()
    assert one.capacity == MIN_CAPACITY_BYTES
    assert one.acceptor.budget.receive_bytes == MIN_CAPACITY_BYTES
    one.feed(framed(b"x"))
    assert one.acceptor.frames[-1] == b"x"


def test_a_buffer_with_unread_bytes_is_kept():
    one, answers = waiting()
    one.feed(framed(b"w" + bytes(500_000)))
    one.connection.release_idle_buffer()
    assert one.capacity > 500_000
    answers[0].answer([framed(b"W")])
    one.feed(framed(bytes(300_000))[:-1])
    one.connection.release_idle_buffer()
    one.feed(b"\0")
    assert one.acceptor.frames[-1] == bytes(300_000)


def test_a_large_buffer_is_released_at_once_while_there_are_many():
    one = line()
    one.acceptor.budget.receive_bytes += 1 << 30
    one.feed(framed(bytes(500_000)))
    assert one.capacity == MIN_CAPACITY_BYTES
    assert one.acceptor.budget.receive_bytes == (1 << 30) + MIN_CAPACITY_BYTES


def test_a_large_request_is_counted_until_it_is_answered():
    one, answers = waiting()
    budget = one.acceptor.budget
    frame = framed(b"w" + bytes(20_000))
    one.feed(frame[:100])
    assert budget.reserved_bytes == len(frame)
    one.feed(frame[100:] + framed(b"x" * 9000)[:50])
    assert budget.reserved_bytes == len(frame)
    answers[0].answer([framed(b"W")])
    one.feed()
    assert budget.reserved_bytes == 9004  # the next one, half here
    one.feed(framed(b"x" * 9000)[50:])
    assert budget.reserved_bytes == 0


def test_a_large_request_waits_for_memory_before_it_is_read():
    budget = MemoryBudget(15_000)
    acceptor = FakeAcceptor(echo, budget=budget)
    first, second, third = (Line(acceptor) for _ in range(3))
    large = framed(bytes(20_000))
    first.feed(large[:100])
    second.feed(large)
    assert not second.transport.reading
    third.feed(framed(b"small"))
    assert third.answers == [b"small"]
    first.feed(large[100:])
    second.feed()
    assert [len(one.answers) for one in (first, second)] == [1, 1]
    assert budget.reserved_bytes == 0


def test_a_connection_that_closes_frees_request_memory():
    budget = MemoryBudget(15_000)
    acceptor = FakeAcceptor(echo, budget=budget)
    first, second, third = (Line(acceptor) for _ in range(3))
    large = framed(bytes(20_000))
    first.feed(large[:100])
    second.feed(large)
    third.feed(large)
    second.lose()
    assert not third.transport.reading
    first.lose()
    third.feed()
    assert len(third.answers) == 1
    assert budget.reserved_bytes == 0


def test_large_requests_behind_a_blocked_answer_do_not_deadlock():
    """A whole frame may stand in the buffer of a connection whose last answer is not taken, and no room be left."""
    budget = MemoryBudget(15_000)
    acceptor = FakeAcceptor(echo, budget=budget)
    first, second = Line(acceptor), Line(acceptor)
    first.feed(framed(bytes(50_000)))  # a buffer that is large enough
    first.transport.take(0)
    first.feed(framed(bytes(70_000)))
    second.feed(framed(bytes(30_000))[:10])
    first.feed(framed(bytes(10_000)))
    assert len(acceptor.frames) == 2
    first.transport.take()
    assert len(acceptor.frames) == 3
    first.feed(framed(b"x") * 10)
    assert len(acceptor.frames) == 13


def test_a_thousand_clients_that_announce_much_and_stall():
    acceptor = FakeAcceptor(echo, max_request_bytes=100_000_000)
    lines = [Line(acceptor) for _ in range(1000)]
    for one in lines:
        one.feed(announced(100_000_000) + bytes(100))
    assert acceptor.budget.receive_bytes == 1000 * MIN_CAPACITY_BYTES


# -- any split of any frames -----------------------------------------------------------------------------------------

KINDS = ("now", "later", "large", "lazy", "cold", "none")


@hypothesis_settings(max_examples=150)
@given(
    frames=st.lists(st.tuples(st.sampled_from(KINDS), st.integers(1, 20_000)), max_size=12),
    splits=st.lists(st.integers(1, 30_000), max_size=40),
    takes=st.lists(st.integers(0, 200_000), max_size=30),
    limit=st.sampled_from([-1, 10_000]),
    seed=st.integers(0, 2**32),
)
def test_any_split_of_the_bytes_gives_the_same_requests_and_answers(frames, splits, takes, limit, seed):
    rng = random.Random(seed)
    sent = [bytes([KINDS.index(kind)]) + rng.randbytes(size) for kind, size in frames]
    expected = [_answer(body) for body in sent if KINDS[body[0]] != "none"]
    pending = []

    def handle(frame):
        kind, answer = KINDS[frame[0]], _answer(frame)
        if kind == "none":
            return None
        if kind == "later":
            pending.append((Pending(), framed(answer)))
            return pending[-1][0]
        if kind in ("lazy", "cold"):
            return [announced(len(answer)), Lazy(answer, kind == "cold")]
        return [framed(answer)]

    one = line(handle, budget=MemoryBudget(limit))
    one.transport.take(0)
    data = b"".join(map(framed, sent))
    steps = [("feed", size) for size in splits] + [("take", size) for size in takes]
    rng.shuffle(steps)
    for step, size in steps:
        if step == "feed":
            one.feed(data[:size], at_most=rng.choice([None, 1000]))
            data = data[size:]
        else:
            one.transport.take(size)
        if rng.random() < 0.5:
            one.acceptor.read_from_disk()
        if pending and rng.random() < 0.5:
            waiter, answer = pending.pop()
            waiter.answer([answer])
    one.transport.take()
    one.feed(data)
    while pending or one.acceptor.readings:
        one.acceptor.read_from_disk()
        if pending:
            waiter, answer = pending.pop()
            waiter.answer([answer])
        one.feed()
    assert one.acceptor.frames == sent
    assert one.answers == expected
    assert one.transport.reading
    assert one.acceptor.budget.reserved_bytes == 0
    assert one.acceptor.budget.receive_bytes == one.capacity


def _answer(body):
    times = 10 if KINDS[body[0]] in ("large", "lazy", "cold") else 1
    return bytes(body) * times


# -- muted by a quota --------------------------------------------------------------------------------------------------


def muting(one, seconds=3.0):
    """A handler that mutes the connection with the frame `mute`."""

    def handle(body):
        if body == b"mute":
            one[0].connection.mute(seconds)
        return echo(body)

    return handle


def muted_line():
    lines = []
    lines.append(line(muting(lines)))
    return lines[0]


def fire_timers(one):
    timers, one.acceptor.timers = one.acceptor.timers, []
    for _, work in timers:
        work()


def test_a_muted_connection_sends_the_answer_and_then_handles_nothing():
    one = muted_line()
    one.feed(framed(b"mute") + framed(b"second"))
    one.feed(framed(b"third"))
    assert one.answers == [b"mute"]
    assert [delay_s for delay_s, _ in one.acceptor.timers] == [3.0]
    assert one.connection.is_busy
    fire_timers(one)
    assert one.answers == [b"mute", b"second", b"third"]
    assert not one.connection.is_busy


def test_what_a_muted_connection_receives_is_bounded():
    one = muted_line()
    one.feed(framed(b"mute") + framed(bytes(100_000)))
    assert not one.transport.reading
    assert len(one.connection._buffer) == MIN_CAPACITY_BYTES
    fire_timers(one)
    one.feed()  # what has waited in the socket
    assert one.answers == [b"mute", bytes(100_000)]


def test_the_answer_that_mutes_may_be_large_and_late():
    pending, lines = Pending(), []
    lines.append(line(lambda body: pending if body == b"late" else echo(body)))
    one = lines[0]
    one.feed(framed(b"late") + framed(b"next"))
    one.transport.take(10)  # the client reads slowly
    one.connection.mute(1.0)
    pending.answer(echo(bytes(JOIN_BYTES * 2)))
    one.transport.take()
    assert one.answers == [bytes(JOIN_BYTES * 2)]
    fire_timers(one)
    assert one.answers[1:] == [b"next"]


def test_a_client_that_closes_while_muted_is_gone_at_once_or_after_its_last_request():
    one = muted_line()
    one.feed(framed(b"mute"))
    assert one.connection.eof_received() is False  # the transport closes
    one.connection.connection_lost(None)
    fire_timers(one)
    one = muted_line()
    one.feed(framed(b"mute") + framed(b"waits"))
    assert one.connection.eof_received() is True
    fire_timers(one)
    assert one.answers == [b"mute", b"waits"]
    assert one.transport.closing


def test_a_connection_that_is_lost_while_muted_leaves_no_timer(caplog):
    one = muted_line()
    cancelled = []
    one.acceptor.cancel = lambda: cancelled.append(True)
    one.feed(framed(b"mute") + framed(b"waits"))
    one.connection.connection_lost(ConnectionResetError())
    assert cancelled == [True]
    assert one.answers == [b"mute"]
