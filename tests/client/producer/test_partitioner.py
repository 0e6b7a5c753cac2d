"""Keys land where the Java client puts them; records without key fill one partition after the other."""

import random

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from client.producer.partitioner import (
    DefaultPartitioner,
    FunctionPartitioner,
    RoundRobinPartitioner,
    make_partitioner,
    murmur2,
)

# Known answers of Kafka's own tests of its murmur2 (signed there).
JAVA = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "signed"), JAVA.items())
def test_murmur2_known_answers(key, signed):
    assert murmur2(key) == signed & 0xFFFFFFFF


@given(st.binary(max_size=40))
def test_murmur2_equals_aiokafka(key):
    assert murmur2(key) == aiokafka_murmur2(key) & 0xFFFFFFFF


def test_keys_use_all_partitions_also_those_without_leader():
    chosen = DefaultPartitioner(random.Random(1))
    for number in range(50):
        key = b"%d" % number
        assert chosen.partition("t", key, range(5), [0]) == (murmur2(key) & 0x7FFFFFFF) % 5


def test_without_key_sticky_until_a_batch_is_full():
    chosen = DefaultPartitioner(random.Random(1))
    seen = set()
    for _ in range(40):
        first = chosen.partition("t", None, range(4), range(4))
        assert all(chosen.partition("t", None, range(4), range(4)) == first for _ in range(5))
        seen.add(first)
        chosen.batch_full("t", first)
    assert seen == {0, 1, 2, 3}


def test_sticky_skips_a_partition_without_leader():
    chosen = DefaultPartitioner(random.Random(1))
    first = chosen.partition("t", None, range(4), range(4))
    others = [number for number in range(4) if number != first]
    assert chosen.partition("t", None, range(4), others) in others
    assert chosen.partition("u", None, range(4), []) in range(4)


def test_round_robin_skips_partitions_without_leader():
    chosen = RoundRobinPartitioner()
    assert [chosen.partition("t", b"k", range(3), [0, 2]) for _ in range(4)] == [0, 2, 0, 2]
    assert [chosen.partition("u", None, range(3), []) for _ in range(4)] == [0, 1, 2, 0]


def test_option_forms():
    rng = random.Random(1)
    assert isinstance(make_partitioner(None, rng), DefaultPartitioner)
    assert isinstance(make_partitioner("round_robin", rng), RoundRobinPartitioner)
    own = RoundRobinPartitioner()
    assert make_partitioner(own, rng) is own
    by_function = make_partitioner(lambda key, partitions, available: max(partitions), rng)
    assert isinstance(by_function, FunctionPartitioner)
    assert by_function.partition("t", None, range(3), [0]) == 2
