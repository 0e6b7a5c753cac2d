"""A client of the workload ends if a call of librdkafka hangs, also one that holds the GIL."""

import ctypes
import signal

from support.deadlines import DEADLINE_S
from support.fork_server import ForkedProcess
from support.transfers.client import Client
from support.transfers.client_process import LIBRDKAFKA_ENDS


def hang():
    Client.call_or_end(ctypes.PyDLL(None).pause, within_s=0.01)


def go_on():
    assert Client.call_or_end(max, 1, 2, within_s=3600) == 2
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_a_client_that_hangs_is_ended():
    with ForkedProcess(hang) as process:
        assert process.wait(DEADLINE_S) == -signal.SIGALRM
    assert -signal.SIGALRM in LIBRDKAFKA_ENDS


def test_a_client_that_is_answered_goes_on():
    with ForkedProcess(go_on) as process:
        assert process.wait(DEADLINE_S) == 0
