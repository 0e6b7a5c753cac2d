import pytest

from client.zookeeper.session_lease import SessionLease, clock_s


def test_a_lease_ends_before_the_session_can():
    now = [100.0]
    lease = SessionLease(lambda: now[0])
    assert not lease.is_valid
    lease.renew(100.0, 6.0)
    assert lease.is_valid
    now[0] = 103.99
    assert lease.is_valid
    now[0] = 104.0
    assert not lease.is_valid


def test_the_lease_counts_from_the_time_of_the_request():
    now = [100.0]
    lease = SessionLease(lambda: now[0])
    now[0] = 105.0
    lease.renew(100.0, 6.0)  # an answer that took five seconds
    assert not lease.is_valid
    lease.renew(104.0, 6.0)
    lease.renew(101.0, 6.0)  # one that was overtaken
    now[0] = 107.9
    assert lease.is_valid
    lease.end()
    assert not lease.is_valid


def test_the_clock_continues_during_suspend():
    assert clock_s() <= clock_s()
    assert clock_s() == pytest.approx(clock_s(), abs=60)
