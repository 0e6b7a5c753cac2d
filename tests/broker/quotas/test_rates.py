"""The arithmetic of quotas against what was recorded from Apache Kafka 3.9 (throttle.jsonl)."""

import json

import pytest

from broker.quotas.rates import INT_MAX, SampledRate, TokenBucket, Window, to_ms
from support.reference import REFERENCE

WINDOW = Window(11, 1.0)
TOLERANCE_MS = 5
ROWS = [json.loads(line) for line in (REFERENCE / "security" / "throttle.jsonl").read_text().splitlines()]


def recorded(start):
    found = [one for one in ROWS if one["experiment"].startswith(start)]
    return [pytest.param(one, id=f"{one['experiment'][:70]} {number}") for number, one in enumerate(found)]


def answered_s(row):
    """When Kafka answered: a request on a muted connection is handled when the time of muting is over."""
    return 1000 + (row["at_ms"] + row["response_after_ms"]) / 1000


@pytest.mark.parametrize("one", recorded("produce series"))
def test_throttle_times_of_produce(one):
    rate = SampledRate(WINDOW, one["quota"])
    wrong = []
    for row in one["rows"]:
        throttle_ms = to_ms(rate.record(row["request_bytes"], answered_s(row)))
        if abs(throttle_ms - row["throttle_time_ms"]) > TOLERANCE_MS:
            wrong.append((row, throttle_ms))
    assert wrong == []


@pytest.mark.parametrize("one", recorded("precedence"))
def test_throttle_times_of_one_large_request(one):
    quota = next((one["levels_set"][level] for level in one["levels_set"] if level == one["level_that_fits"]), None)
    if quota is None:
        assert one["throttle_time_ms"] == 0
        return
    size = 60131 if one["quota"] == "consumer_byte_rate" else one["bytes"]  # the answer that was not sent
    assert to_ms(SampledRate(WINDOW, quota).record(size, 5.0)) == pytest.approx(one["throttle_time_ms"], abs=1)


FULL_ANSWER = {"v12": 20060, "v4": 20050, "v1": 20038}


@pytest.mark.parametrize("one", recorded("fetch series"))
def test_throttle_times_of_fetch(one):
    version = one["experiment"].split()[2].strip(",")
    rate = SampledRate(WINDOW, one["quota"])
    wrong = []
    # A time of muting depends on when the first answer was counted: at some time before the client had it.
    tolerance_ms = 25 + one["rows"][0]["response_after_ms"]
    for row in one["rows"]:
        if "at_ms" not in row:
            continue  # another API on the muted connection
        size = FULL_ANSWER[version]
        throttle_ms = to_ms(rate.record(size, answered_s(row)))
        if throttle_ms:
            rate.take_back(size)
        if abs(throttle_ms - row["throttle_time_ms"]) > tolerance_ms:
            wrong.append((row, throttle_ms))
    assert wrong == []


@pytest.mark.parametrize("version", [5, 6, 7])
def test_throttle_times_of_controller_mutations(version):
    [one] = [row for row in ROWS if row["experiment"].startswith(f"controller_mutation_rate: CreateTopics v{version}")]
    bucket = TokenBucket(WINDOW, one["quota"])
    wrong = []
    for row in one["rows"]:
        now_s = row["at_ms"] / 1000  # the topics are counted before the wait for their leaders
        refused = version >= 6 and bucket.is_overdrawn(now_s)
        throttle_s = bucket.throttle_s(now_s) if refused else bucket.take(row["partitions"], now_s)
        if version >= 6 and not refused:
            throttle_s = 0.0 if row["throttle_time_ms"] == 0 else throttle_s
        if (89 if refused else 0) != row["error_code"] or abs(to_ms(throttle_s) - row["throttle_time_ms"]) > 300:
            wrong.append((row, throttle_s))
    assert wrong == []


def test_the_samples_begin_with_values_and_old_ones_are_dropped():
    rate = SampledRate(WINDOW, 1.0)
    for second in range(5):
        rate.record(100, 50.0 + second * 1.5)
    assert rate.rate(56.0) == pytest.approx(500 / 10)
    assert rate.rate(60.9) == pytest.approx(500 / 10.9)
    assert rate.rate(61.0) == pytest.approx(400 / 10.5)  # the first sample is 11 s old
    assert not rate.is_idle(66.9)
    assert rate.rate(68.0) == 0
    assert rate.is_idle(68.0)


def test_a_value_that_is_taken_back_counts_no_more():
    rate = SampledRate(WINDOW, 1.0)
    assert rate.record(100, 1.0) == pytest.approx(90)
    rate.take_back(100)
    assert rate.record(10, 1.5) == 0


def test_a_quota_of_nothing_throttles_for_as_long_as_there_is():
    assert to_ms(SampledRate(WINDOW, 0).record(1, 1.0)) == INT_MAX
    assert SampledRate(WINDOW, 0).record(0, 1.0) == 0
    assert to_ms(TokenBucket(WINDOW, 0).take(1, 1.0)) == INT_MAX


def test_a_rate_with_one_sample():
    rate = SampledRate(Window(1, 2.0), 10)
    assert rate.record(5, 1.0) == pytest.approx(0.499)  # in the first millisecond
    assert rate.throttle_s(1.5) == 0
    assert rate.rate(3.0) == 0


def test_a_quota_that_is_changed_counts_for_what_was_recorded_before():
    rate = SampledRate(WINDOW, 1000)
    assert rate.record(1000, 1.0) == 0
    rate.quota = 10
    assert rate.record(0, 1.0) == pytest.approx(90)


def test_a_bucket_holds_the_whole_window():
    bucket = TokenBucket(WINDOW, 2)
    assert bucket.take(22, 1.0) == 0
    assert not bucket.is_overdrawn(1.0)
    assert bucket.take(4, 1.0) == pytest.approx(2.0)
    assert bucket.is_overdrawn(2.9)
    assert not bucket.is_overdrawn(3.1)
    assert bucket.rate(3.0) == pytest.approx(2)
    assert bucket.is_idle(14.1)
