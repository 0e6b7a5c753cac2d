"""Damaged batches and message sets: whatever the bytes, only the errors of this package come out."""

import contextlib
import random
import struct
from zlib import crc32

import pytest

from protocol.compression import CompressionType
from protocol.conversion import down_convert, up_convert
from protocol.errors import CorruptRecordError, InvalidRecordError, UnsupportedCompressionError
from protocol.message_set import MessageSetBuilder, iter_messages, iter_mixed
from protocol.record_batch import BATCH_HEADER_SIZE, iter_batches, update_crc
from support.batches import build, some_rows
from support.counts import count

pytestmark = pytest.mark.counted

ALLOWED = (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError)
LIMIT = 1 << 20


def mutated(random_source: random.Random, data: bytes, first: int = 0) -> bytearray:
    """`data` with a few bytes changed, cut, doubled or set to extremes, from position `first` on."""
    copy = bytearray(data)
    for _ in range(random_source.randint(1, 4)):
        if len(copy) <= first:
            break
        position = random_source.randrange(first, len(copy))
        match random_source.randrange(6):
            case 0:
                copy[position] ^= 1 << random_source.randrange(8)
            case 1:
                copy[position] = random_source.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                del copy[position : position + random_source.randint(1, 20)]
            case 3:
                copy[position:position] = random_source.randbytes(random_source.randint(1, 12))
            case 4:
                copy[position : position + 4] = random_source.choice((b"\xff" * 4, b"\x7f" + b"\xff" * 3, bytes(4)))
            case 5:
                copy[position : position + 10] = b"\xff" * random_source.randint(1, 10) + b"\x01"
    return copy


def read_batches(data: bytearray) -> int:
    number = 0
    try:
        for batch in iter_batches(data):
            number += sum(1 for _ in batch.records(LIMIT))
    except ALLOWED:
        pass
    return number


def samples() -> list[bytearray]:
    return [build(some_rows(20, 60), 1000, codec) for codec in CompressionType]


@pytest.mark.parametrize("first", [0, BATCH_HEADER_SIZE])
def test_batches(first: int) -> None:
    """Anywhere; and in the records alone, with length and CRC right so that the decoder sees the damage."""
    random_source = random.Random(20241121 + first)
    batches = samples()
    for _ in range(count(3000, 50_000)):
        data = mutated(random_source, random_source.choice(batches), first)
        if first:
            struct.pack_into(">i", data, 8, len(data) - 12)
            update_crc(data, 0)
        read_batches(data)
        with contextlib.suppress(ALLOWED):
            down_convert(data, 1, limit=LIMIT)


def test_records_of_random_bytes() -> None:
    random_source = random.Random(7)
    header = samples()[0][:BATCH_HEADER_SIZE]
    for _ in range(count(2000, 50_000)):
        data = bytearray(header + random_source.randbytes(random_source.randint(0, 80)))
        struct.pack_into(">i", data, 8, len(data) - 12)
        data[22] = random_source.randrange(8)
        struct.pack_into(">i", data, 57, random_source.choice((1, 2, 1000, 2**31 - 1)))
        read_batches(data)


def test_message_sets() -> None:
    random_source = random.Random(99)
    sets = []
    for magic in (0, 1):
        for codec in list(CompressionType)[:4]:
            builder = MessageSetBuilder(magic, codec)
            for i, (timestamp, key, value, _) in enumerate(some_rows(8, 30)):
                builder.append(i, timestamp, key, value)
            sets.append(builder.build())
    for _ in range(count(3000, 50_000)):
        data = mutated(random_source, random_source.choice(sets))
        if random_source.random() < 0.6:
            # size and CRC of the first message set right, so that damage behind them is seen
            if len(data) < 30:
                continue
            size = len(data) - 12 if random_source.random() < 0.5 else struct.unpack_from(">i", data, 8)[0]
            size = max(0, min(size, len(data) - 12))
            struct.pack_into(">iI", data, 8, size, crc32(data[16 : size + 12]))
        for convert in (up_convert, lambda given: down_convert(given, 0)):
            with contextlib.suppress(ALLOWED):
                convert(data)
        try:
            for message in iter_messages(data):
                message.records(LIMIT)
        except ALLOWED:
            pass
        with contextlib.suppress(ALLOWED):
            list(iter_mixed(data, partial=True))


def test_the_mutations_reach_the_decoder() -> None:
    """The fuzzing would prove nothing if every mutation were refused at the door."""
    random_source = random.Random(1)
    outcomes = {True: 0, False: 0}
    for _ in range(500):
        data = mutated(random_source, samples()[0], BATCH_HEADER_SIZE)
        struct.pack_into(">i", data, 8, len(data) - 12)
        outcomes[read_batches(data) > 0] += 1
    assert min(outcomes.values()) > 50
