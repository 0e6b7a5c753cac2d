"""The log lines of failed handshakes."""

import logging
import ssl

from broker.network.handshake_failures import HandshakeFailures, NotTlsError, reason_of
from broker.network.limited_lines import LINES_IN_A_WINDOW, WINDOW_S


def test_lines_are_limited_and_the_rest_is_counted(caplog):
    caplog.set_level(logging.INFO)
    now_s = 0.0
    failures = HandshakeFailures("OUTSIDE", lambda: now_s)
    for port in range(LINES_IN_A_WINDOW + 5):
        failures.add("10.0.0.1", port, NotTlsError())
    assert len(caplog.records) == LINES_IN_A_WINDOW
    assert caplog.records[0].getMessage() == (
        "TLS handshake with 10.0.0.1:0 failed on listener OUTSIDE: the client does not speak TLS"
    )
    caplog.clear()
    now_s = WINDOW_S
    failures.add("10.0.0.1", 1, NotTlsError())
    assert [one.getMessage() for one in caplog.records][:1] == ["5 more TLS handshakes failed on listener OUTSIDE"]
    assert len(caplog.records) == 2
    assert failures.count == LINES_IN_A_WINDOW + 6


def test_reasons():
    assert reason_of(ConnectionResetError()) == "the client closed the connection"
    assert reason_of(TimeoutError()) == "the client did not complete it in time"
    error = ssl.SSLError(1, "text")
    error.reason = "TLSV1_ALERT_UNKNOWN_CA"
    assert reason_of(error) == "tlsv1 alert unknown ca"
