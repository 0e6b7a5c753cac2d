"""Damaged messages: whatever the bytes, only DecodeError may come out, and memory stays in proportion."""

import random
import tracemalloc

import pytest

from protocol.errors import DecodeError, UnsupportedVersionError
from protocol.headers import decode_request_header
from support.counts import count
from support.messages import every_version, message_classes, read_vectors, vector_files, versions

pytestmark = pytest.mark.counted

LENGTHS = [
    b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xfe", b"\x00\xff\xff\xff",
    b"\x7f\xff", b"\xff\xfe", b"\x80\x00", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x7f",
    b"\x80\x80\x80\x80\x80\x01", b"\x80\x00", b"\xfe\x01", b"\x00", b"\x01", b"\xff", b"\xc3\x28",
]  # fmt: skip


def mutate(raw, rng):
    """One to four damages: bits, truncation, insertion, deletion, repetition, overwritten lengths."""
    data = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        position = rng.randrange(len(data) + 1)
        kind = rng.randrange(7)
        if kind == 0 and position < len(data):
            data[position] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del data[position:]
        elif kind == 2:
            data[position:position] = rng.randbytes(rng.randint(1, 5))
        elif kind == 3:
            del data[position : position + rng.randint(1, 8)]
        elif kind == 4:
            data[position:position] = data[position : position + rng.randint(1, 40)]
        else:
            length = rng.choice(LENGTHS)
            data[position : position + len(length)] = length
    return bytes(data)


def samples():
    """For each message and version one recorded encoding, the last one (with tags where there are any)."""
    found = {
        (cls, vector["version"]): bytes.fromhex(vector["hex"])
        for file in vector_files()
        for cls, vector in read_vectors(file)
    }
    for key in every_version():
        found.setdefault(key, key[0]().to_bytes(key[1]))
    return found


SAMPLES = samples()


def refusal(cls, raw, version):
    try:
        cls.decode(raw, version)
    except DecodeError as error:
        return error
    return None


def test_every_version_of_every_message_is_fuzzed():
    assert set(every_version()) == set(SAMPLES)


def test_damaged_messages_are_either_refused_or_read():
    rng = random.Random(20240607)
    keys = list(SAMPLES)
    outcomes = {"refused": 0, "read": 0}
    rounds = count(5_000, 100_000)
    for number in range(rounds):
        cls, version = keys[number % len(keys)]
        damaged = mutate(SAMPLES[cls, version], rng)
        error = refusal(cls, damaged, version)
        if error is None:
            message, end = cls.decode(damaged, version)
            assert end <= len(damaged)
            raw = message.to_bytes(version)
            assert cls.decode(raw, version)[0].to_bytes(version) == raw
            outcomes["read"] += 1
        else:
            assert error.rule
            assert error.field
            assert 0 <= error.offset <= len(damaged)
            assert str(error).startswith(cls.NAME)
            outcomes["refused"] += 1
    assert min(outcomes.values()) > rounds // 10


def test_messages_read_as_another_version_or_message():
    rng = random.Random(7)
    keys = list(SAMPLES)
    for _ in range(count(2_000, 40_000)):
        raw = SAMPLES[rng.choice(keys)]
        cls, _ = rng.choice(keys)
        version = rng.randint(-1, cls.MAX_VERSION + 1)
        if version in versions(cls):
            try:
                cls.decode(raw, version)
            except DecodeError:
                continue
        else:
            with pytest.raises(UnsupportedVersionError):
                cls.decode(raw, version)


def test_damaged_request_headers():
    rng = random.Random(11)
    good = bytes.fromhex("00120003000000070004746573740000")
    for _ in range(count(2_000, 40_000)):
        damaged = mutate(good, rng)
        try:
            decode_request_header(damaged)
        except (DecodeError, UnsupportedVersionError):
            continue


def test_each_truncation_of_each_message_is_refused():
    for (cls, version), raw in SAMPLES.items():
        for end in range(0, len(raw), 1 if len(raw) < 60 else 13):
            with pytest.raises(DecodeError):
                cls.decode(raw[:end], version)


def test_a_giant_length_allocates_nothing():
    """A length of gigabytes at any position of a message: peak memory stays in proportion to the input."""
    worst = 0.0
    for name in ("FetchRequest", "MetadataResponse", "UpdateMetadataRequest", "OffsetFetchResponse"):
        cls = message_classes()[name]
        for version in (cls.MIN_VERSION, cls.MAX_VERSION):
            raw = SAMPLES[cls, version]
            cls.decode(raw, version)  # compiled before memory is counted
            for giant in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x07", b"\x01\x00\x00\x00"):
                for position in range(0, len(raw), 5):
                    damaged = raw[:position] + giant + raw[position + len(giant) :]
                    tracemalloc.start()
                    try:
                        cls.decode(damaged, version)
                    except DecodeError:
                        pass
                    finally:
                        peak = tracemalloc.get_traced_memory()[1]
                        tracemalloc.stop()
                    worst = max(worst, peak / (len(raw) + 1_000))
    assert worst < 50
