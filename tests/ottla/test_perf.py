"""`ottla perf`: the figures are complete and consistent (how large they are is not a test's business)."""

import tracemalloc

import pytest

from ottla.commands.perf_run import VALUES, RandomValues


def test_produce_and_consume(on):
    on("topics", "create", "load", "-p", 2)
    made = on("perf", "produce", "load", "-n", 3000, "-s", "1k", "-z", "lz4", "--json").json
    assert (made["records"], made["bytes"]) == (3000, 3000 * 1024)
    percentiles = [made[f"latency_{name}_ms"] for name in ("p50", "p95", "p99", "p99.9", "max")]
    assert percentiles == sorted(percentiles)
    assert made["records_per_second"] > 0
    read = on("perf", "consume", "load", "--json").json
    assert (read["records"], read["bytes"]) == (3000, 3000 * 1024)
    raw = on("perf", "consume", "load", "--raw", "--json").json
    assert raw["records"] == 3000
    assert on("perf", "consume", "load", "-n", 10, "--json").json["records"] >= 10
    shown = on("perf", "consume", "load").out
    assert "records per second" in shown


@pytest.mark.parametrize("size", [1, 2, 3, 100, 1024, 65_537, 2 * 1024**2])
def test_values_are_printable_and_differ(size):
    values = RandomValues(size)
    made = {values[number] for number in range(3 * VALUES)}
    assert {len(value) for value in made} == {size}
    assert all(value.isascii() and value.decode().isprintable() for value in made)
    if size >= 3:
        assert len(made) == VALUES


def test_large_values_share_their_bytes():
    tracemalloc.start()
    try:
        RandomValues(2 * 1024**2)
        assert tracemalloc.get_traced_memory()[1] < 40 * 1024**2  # 64 values would take 128 MiB
    finally:
        tracemalloc.stop()


def test_rate_is_held(on):
    on("topics", "create", "slow", "-p", 1)
    made = on("perf", "produce", "slow", "-n", 100, "--rate", 500, "--json").json
    assert made["seconds"] >= 0.19


def test_bad_values(on):
    assert "--size '1x'" in on("perf", "produce", "load", "-s", "1x", code=1).err
    assert "--rate -1" in on("perf", "produce", "load", "--rate", -1, code=1).err
    assert "unknown topic" in on("perf", "consume", "nosuch", code=1).err
