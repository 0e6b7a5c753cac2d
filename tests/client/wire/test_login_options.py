"""What the SASL options stand for, above all JAAS lines as Java's clients have them."""

import pytest

from client.errors import InvalidOptionError
from client.wire.login_options import EndpointTokens, KerberosTickets, PasswordLogin, UnsecuredTokens, login_of
from client.wire.security_options import SecurityOptions
from security.sasl.kerberos_login import KerberosLogin

SECRET = "hunter2"
MODULES = "org.apache.kafka.common.security"
PLAIN = f"{MODULES}.plain.PlainLoginModule required"
SCRAM = f"{MODULES}.scram.ScramLoginModule required"
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required"
OAUTH = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required"
URL = "http://127.0.0.1/token"


def login(mechanism, jaas, **others):
    options = {"security_protocol": "SASL_SSL", "sasl_mechanism": mechanism, "sasl_jaas_config": jaas}
    return login_of(SecurityOptions(**options, **others))


@pytest.mark.parametrize(
    ("mechanism", "jaas", "expected"),
    [
        ("PLAIN", f"{PLAIN} username='alice' password='{SECRET}';", PasswordLogin("alice", SECRET)),
        ("SCRAM-SHA-512", f'{SCRAM} username="a b" password="{SECRET}";', PasswordLogin("a b", SECRET)),
        (
            "SCRAM-SHA-256",
            f'{SCRAM} username="id" password="{SECRET}" tokenauth="true";',
            PasswordLogin("id", SECRET, is_token=True),
        ),
        (
            "OAUTHBEARER",
            f'{OAUTH} unsecuredLoginStringClaim_sub="alice";',
            UnsecuredTokens({"unsecuredLoginStringClaim_sub": "alice"}),
        ),
    ],
)
def test_jaas_lines(mechanism, jaas, expected):
    found = login(mechanism, jaas)
    assert found == expected
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("jaas", "service", "expected"),
    [
        (None, None, KerberosTickets(KerberosLogin(), "kafka")),
        (None, "bus", KerberosTickets(KerberosLogin(), "bus")),
        (
            f'{KRB5} useKeyTab=true keyTab="/k" principal="alice@X";',
            None,
            KerberosTickets(KerberosLogin("/k", "alice@X"), "kafka"),
        ),
        (
            f"{KRB5} useTicketCache=true serviceName=bus;",
            None,
            KerberosTickets(KerberosLogin(uses_ticket_cache=True), "bus"),
        ),
    ],
)
def test_kerberos(jaas, service, expected):
    assert login("GSSAPI", jaas, sasl_kerberos_service_name=service) == expected


def test_client_credentials_in_a_jaas_line():
    jaas = f'{OAUTH} clientId="me" clientSecret="{SECRET}" scope="kafka" extension_traceId="7";'
    found = login("OAUTHBEARER", jaas, sasl_oauthbearer_token_endpoint_url=URL)
    assert found == EndpointTokens(URL, "me", SECRET, "kafka", {"traceId": "7"})
    assert SECRET not in repr(found)


@pytest.mark.parametrize(
    ("mechanism", "jaas", "rule"),
    [
        ("PLAIN", f"{SCRAM} username=a password={SECRET};", "the login module of PLAIN must be"),
        ("PLAIN", f"{PLAIN} username=a;", "must contain password"),
        ("PLAIN", f"{PLAIN} password={SECRET};", "must contain username"),
        ("PLAIN", f"{PLAIN} username=a password={SECRET}", "semicolon"),
        ("OAUTHBEARER", f"{OAUTH};", "unsecuredLogin"),
        ("GSSAPI", f"{PLAIN} username=a password={SECRET};", "the login module of GSSAPI must be"),
        ("GSSAPI", f"{KRB5} storePass={SECRET};", "must contain useKeyTab=true or useTicketCache=true"),
        ("GSSAPI", f"{KRB5} useKeyTab=true keyTab=k storePass={SECRET};", "must contain principal"),
    ],
)
def test_a_wrong_jaas_line(mechanism, jaas, rule):
    with pytest.raises(InvalidOptionError, match=rule) as caught:
        login(mechanism, jaas)
    assert SECRET not in str(caught.value)
