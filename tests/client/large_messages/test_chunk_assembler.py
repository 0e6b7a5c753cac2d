"""Chunks made whole again: mixed, repeated, missing, too many; and where to begin for that nothing is lost."""

import itertools
import random

import pytest
from crc32c import crc32c

from client.consumer.fetched import ConsumerRecord
from client.errors import InvalidOptionError
from client.large_messages.chunk_assembler import ChunkAssembler
from client.large_messages.chunk_headers import ChunkHeaders, chunk_headers
from client.topic_partition import TopicPartition

HERE = TopicPartition("t", 0)
_IDS = itertools.count(1)


def record(offset, value=b"", headers=(), partition=0):
    return ConsumerRecord("t", partition, 0, offset, 1_000 + offset, b"k", value, tuple(headers))


def chunks(value, count, own=()):
    """Values and headers of a message's chunks."""
    size, message, crc = -(-len(value) // count), b"%016d" % next(_IDS), crc32c(value)
    return [
        (
            value[index * size : (index + 1) * size],
            [*(own if index == 0 else ()), *ChunkHeaders(message, index, count, len(value), crc).encode()],
        )
        for index in range(count)
    ]


def add_all(assembler, parts, first=0):
    return [assembler.add(record(offset, *part)) for offset, part in enumerate(parts, first)]


@pytest.fixture
def given_up():
    return []


@pytest.fixture
def assembler(given_up):
    return ChunkAssembler(max_buffered_bytes=100, max_gap=50, on_given_up=given_up.append)


def test_a_message(assembler):
    *before, whole = add_all(assembler, chunks(b"0123456789", 3, [("h", b"1")]), 7)
    assert before == [None, None]
    assert whole == record(9, b"0123456789", [("h", b"1")])._replace(timestamp=1_007)
    assert assembler.buffered_bytes == 0


def test_other_records_are_returned_unchanged(assembler):
    for headers in ([], [("ottla-chunk-index", b"0")], [("ottla-chunk-message", b"m"), ("ottla-chunk-index", b"x")]):
        one = record(3, b"v", headers)
        assert assembler.add(one) is one


def test_headers_round_trip():
    headers = ChunkHeaders(b"m" * 16, 2, 3, 4_000_000_000, 2**32 - 1)
    assert chunk_headers(record(0, b"", headers.encode())) == headers
    assert chunk_headers(record(0, b"", headers._replace(number=3).encode())) is None


def test_a_message_whose_first_chunks_are_missing(assembler, given_up):
    parts = chunks(b"0123456789", 3)
    assert add_all(assembler, parts[1:], 5) == [None, None]
    assert [(one.partition, one.offset) for one in given_up] == [(HERE, 5)]  # told once
    assert "first chunk was not seen, this is 1 of 3" in given_up[0].reason
    assert assembler.safe_offset(HERE, 7) == 7


def test_a_chunk_that_is_missing(assembler, given_up):
    first, _, third, fourth = chunks(b"0123456789", 4)
    assert add_all(assembler, [first, third, fourth]) == [None] * 3
    assert [one.reason for one in given_up] == ["chunk 1 of 4 is missing"]
    assert (assembler.buffered_bytes, assembler.safe_offset(HERE, 3)) == (0, 3)


def test_repeated_chunks(assembler, given_up):
    parts = chunks(b"0123456789", 3)
    found = add_all(assembler, [parts[0], parts[0], parts[1], parts[0], parts[1], parts[2], parts[2], parts[0]])
    assert [one.value for one in found if one is not None] == [b"0123456789"]
    assert given_up == []
    assert assembler.buffered_bytes == 0
    assembler.done(HERE, 6)
    assert assembler.safe_offset(HERE, 8) == 8


def test_a_wrong_checksum(assembler, given_up):
    parts = chunks(b"0123456789", 2)
    assert add_all(assembler, [parts[0], (b"56788", parts[1][1])]) == [None, None]
    assert [one.reason for one in given_up] == ["size or checksum is wrong"]


def test_memory_is_bounded(assembler, given_up):
    one, two, too_large = chunks(b"a" * 90, 3), chunks(b"b" * 90, 2), chunks(b"c" * 101, 2)
    found = add_all(assembler, [*one[:2], too_large[0], two[0], one[2], two[1], too_large[1]])
    assert [None if whole is None else whole.value for whole in found] == [None] * 5 + [b"b" * 90, None]
    assert [(given.offset, given.reason) for given in given_up] == [
        (2, "it has 101 bytes, max_buffered_bytes is 100"),
        (3, "more than 100 bytes are waiting"),
    ]
    assert assembler.buffered_bytes == 0


def test_an_unfinished_message_is_dropped_after_a_timeout(assembler, given_up):
    assembler.add(record(3, *chunks(b"0123456789", 3)[0]))
    for offset in range(4, 54):
        assert assembler.add(record(offset, b"x")) is not None
        assert assembler.safe_offset(HERE, offset + 1) == 3
    assembler.add(record(54, b"x"))
    assert [one.reason for one in given_up] == ["no chunk for 50 offsets"]
    assert assembler.safe_offset(HERE, 55) == 55


def test_safe_offsets(assembler):
    one, two = chunks(b"0123456789", 3), chunks(b"abc", 3)
    # offsets:  10      11      12      13      14      15
    for offset, part in zip(range(10, 16), [one[0], two[0], two[1], two[2], one[1], one[2]], strict=True):
        assembler.add(record(offset, *part))
    assert assembler.safe_offset(HERE, 16) == 16
    assert assembler.safe_offset(HERE, 15) == 10  # the first is not done with
    assert assembler.safe_offset(HERE, 13) == 10
    assert assembler.safe_offset(HERE, 9) == 9
    assembler.done(HERE, 14)  # the second is
    assert assembler.safe_offset(HERE, 15) == 10
    assembler.done(HERE, 16)
    assert assembler.safe_offset(HERE, 16) == 16


def test_a_removed_partition_is_forgotten(assembler):
    parts = chunks(b"0123456789", 3)
    add_all(assembler, parts[:2])
    assembler.forget(HERE)
    assert (assembler.buffered_bytes, assembler.safe_offset(HERE, 2)) == (0, 2)
    assert add_all(assembler, parts)[2].value == b"0123456789"
    assembler.forget(HERE)
    assert add_all(assembler, parts)[2].value == b"0123456789"  # set back, and read again


def test_values_that_are_not_bytes(assembler):
    with pytest.raises(TypeError, match="value_deserializer"):
        assembler.add(record(0, "text", chunks(b"ab", 2)[0][1]))


@pytest.mark.parametrize("options", [{"max_buffered_bytes": 0}, {"max_gap": 0}])
def test_invalid_options_are_refused(options):
    with pytest.raises(InvalidOptionError):
        ChunkAssembler(**options)


@pytest.mark.parametrize("seed", range(30))
def test_restarts_lose_nothing(seed):
    """Mixed messages, read with random stops, each going on from the safe offset of what is done with."""
    chosen = random.Random(seed)
    values = [chosen.randbytes(chosen.randint(1, 60)) for _ in range(30)]
    waiting = [chunks(value, chosen.randint(2, 5)) if chosen.random() < 0.7 else [(value, [])] for value in values]
    log, open_ = [], []
    while waiting or open_:
        if waiting and (not open_ or chosen.random() < 0.4):
            open_.append(waiting.pop(0))
        parts = chosen.choice(open_)
        log.append(parts.pop(0))
        if chosen.random() < 0.1:
            log.append(log[-1])  # written twice
        open_ = [one for one in open_ if one]
    seen, start = set(), 0
    while start < len(log):
        assembler = ChunkAssembler(max_buffered_bytes=10_000)
        handled, stop = start, chosen.randint(start + 1, len(log) + 20)
        for offset in range(start, min(stop, len(log))):
            whole = assembler.add(record(offset, *log[offset]))
            if whole is not None and chosen.random() < 0.05:
                break  # not done with
            if whole is not None:
                seen.add(whole.value)
            handled = offset + 1
            if chosen.random() < 0.3:
                assembler.done(HERE, handled)
        start = assembler.safe_offset(HERE, handled)
    assert seen == set(values)
