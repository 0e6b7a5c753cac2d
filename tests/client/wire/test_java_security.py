"""Which security settings of Java's clients may be ignored."""

import pytest

from client.wire.java_security import changes_nothing


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("sasl.kerberos.ticket.renew.jitter", "0.05", True),
        ("sasl.kerberos.kinit.cmd", "/usr/bin/kinit", True),
        ("sasl.kerberos.keytab", "/etc/a.keytab", False),
        ("sasl.login.refresh.window.factor", "0.8", True),
        ("ssl.trustmanager.algorithm", "PKIX", True),
        ("ssl.engine.factory.class", "com.example.Factory", False),
        ("ssl.truststore.location", "ca.pem", False),
        ("sasl.login.class", "com.example.Login", False),
        (
            "sasl.login.callback.handler.class",
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
            True,
        ),
        ("sasl.login.callback.handler.class", "com.example.Handler", False),
    ],
)
def test_settings(name, text, expected):
    assert changes_nothing(name, text) is expected
