"""The clock of a broker that can be wrong."""

from ottla.testing.faults.clocks import SkewedClock


def test_the_skew_is_added():
    clock = SkewedClock(lambda: 1000)
    assert clock.now_ms() == 1000
    clock.skew_ms = -300
    assert clock.now_ms() == 700
