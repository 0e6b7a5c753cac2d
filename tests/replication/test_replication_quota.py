"""The measured rate of a replication quota, on a clock that the test sets: three samples of two seconds."""

import pytest

from replication.replication_quota import ReplicationQuota

WINDOW_S, SAMPLE_S = 6, 2


class Clock:
    """Seconds, set by the test."""

    now_s = 100.0


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def quota(clock):
    """Ten bytes a second."""
    return ReplicationQuota(
        lambda: 10, lambda config: (), 1, now_s=lambda: clock.now_s, samples=WINDOW_S // SAMPLE_S, sample_s=SAMPLE_S
    )


def test_the_allowed_rate_is_not_exceeded(quota):
    quota.record(SAMPLE_S * 10)
    assert not quota.is_exceeded
    quota.record(1)
    assert quota.is_exceeded


def test_the_rate_is_measured_from_the_start_of_the_first_sample(quota, clock):
    quota.record(1)
    clock.now_s += 1
    quota.record(19)
    clock.now_s += 3
    quota.record(20)
    assert not quota.is_exceeded  # 40 bytes in 4 seconds
    clock.now_s += 1
    quota.record(11)
    assert quota.is_exceeded  # 51 bytes in 5 seconds


def test_a_sample_is_forgotten_when_it_is_as_old_as_the_window(quota, clock):
    quota.record(1000)
    clock.now_s += WINDOW_S - 0.5
    assert quota.is_exceeded
    clock.now_s += 0.5
    assert not quota.is_exceeded


def test_bytes_within_a_sample_are_as_old_as_its_start(quota, clock):
    clock.now_s += 100
    quota.record(1)
    clock.now_s += SAMPLE_S / 2
    quota.record(1000)
    clock.now_s += WINDOW_S - SAMPLE_S / 2
    assert not quota.is_exceeded


def test_a_sample_ends_after_its_seconds(quota, clock):
    quota.record(1)
    clock.now_s += SAMPLE_S
    quota.record(1000)  # the first bytes of the second sample
    clock.now_s += WINDOW_S - SAMPLE_S
    assert quota.is_exceeded
