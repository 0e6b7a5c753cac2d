"""The two ways to find records in batches: compiled and by numpy, on the same bytes, sound ones and damaged ones."""

from __future__ import annotations

import random

import numpy as np
import pytest

from client.arrow.record_columns import decode_by_numpy, decode_compiled
from protocol.errors import InvalidRecordError
from protocol.record_batch import BATCH_HEADER_SIZE
from support.batches import build
from support.counts import count

NOW = 1_700_000_000_000


def payload(rng, records):
    rows = []
    size = rng.choice((0, 50, 61, 100, 8_150))
    for _ in range(records):
        if rng.random() < 0.1:
            size = rng.choice((0, 1, 55, 200, 9_000))
        key = rng.choice((None, None, b"", b"k" * rng.randrange(20)))
        headers = [("h", rng.randbytes(3))] if rng.random() < 0.1 else []
        rows.append((NOW + rng.randint(-100, 10_000_000), key, None if rng.random() < 0.05 else bytes(size), headers))
    return bytes(build(rows))[BATCH_HEADER_SIZE:]


def batches(rng):
    """Payloads one after another with bytes between them: (buffer, spans, counts)."""
    data, spans, counts = b"", [], []
    for _ in range(rng.randrange(1, 4)):
        records = rng.choice((1, 2, 17, 40, 130))
        data += bytes(rng.randrange(70))
        part = payload(rng, records)
        spans.append((len(data), len(data) + len(part)))
        counts.append(records)
        data += part
    return bytearray(data), spans, counts


def outcome(decode, data, spans, counts):
    try:
        return [column.tolist() for column in decode(np.frombuffer(data, dtype=np.uint8), spans, counts)]
    except (IndexError, InvalidRecordError):
        return "malformed"


def test_both_decoders_find_the_same_records():
    rng = random.Random(1)
    for _ in range(30):
        data, spans, counts = batches(rng)
        found = outcome(decode_compiled, data, spans, counts)
        assert found != "malformed"
        assert found == outcome(decode_by_numpy, data, spans, counts)


@pytest.mark.counted
def test_both_decoders_refuse_or_read_damaged_records_alike():
    rng = random.Random(2)
    refused = 0
    for _ in range(count(300, 20_000)):
        data, spans, counts = batches(rng)
        for _ in range(rng.randrange(1, 4)):
            begin, end = rng.choice(spans)
            data[rng.randrange(begin, min(end, begin + 400))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        compiled = outcome(decode_compiled, data, spans, counts)
        by_numpy = outcome(decode_by_numpy, data, spans, counts)
        refused += compiled == "malformed"
        # The compiled loop is the stricter one: numpy does not look whether a key ends inside of its record.
        assert compiled in (by_numpy, "malformed")
    assert refused


@pytest.mark.parametrize("wrong", [-1, 0, 2, 1 << 31])
def test_an_impossible_record_count_is_malformed(wrong):
    data = payload(random.Random(3), 1)
    for decode in (decode_compiled, decode_by_numpy):
        assert outcome(decode, data, [(0, len(data))], [wrong]) == "malformed"
