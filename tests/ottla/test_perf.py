"""`ottla perf`: the figures are complete and consistent (how large they are is not a test's business)."""


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


def test_rate_is_held(on):
    on("topics", "create", "slow", "-p", 1)
    made = on("perf", "produce", "slow", "-n", 100, "--rate", 500, "--json").json
    assert made["seconds"] >= 0.19


def test_bad_values(on):
    assert "--size '1x'" in on("perf", "produce", "load", "-s", "1x", code=1).err
    assert "--rate -1" in on("perf", "produce", "load", "--rate", -1, code=1).err
    assert "unknown topic" in on("perf", "consume", "nosuch", code=1).err
