"""The options for TLS and SASL: which go together, and that their secrets are not shown."""

import pickle
import ssl

import pytest

from client.errors import InvalidOptionError
from client.producer.options import ProducerOptions
from client.wire.security_options import NAMES, SecurityOptions, security_keywords

SECRET = "hunter2"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
USER = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "alice", "sasl_plain_password": SECRET}
SASL = {"security_protocol": "SASL_PLAINTEXT"}
OAUTH = {**SASL, "sasl_mechanism": "OAUTHBEARER"}
CLIENT = {
    "sasl_oauthbearer_token_endpoint_url": "https://login/token",
    "sasl_oauthbearer_client_credentials_client_id": "me",
    "sasl_oauthbearer_client_credentials_client_secret": SECRET,
}


def provider():
    return "token"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"security_protocol": "SSL"},
        {"security_protocol": "SSL", "ssl_truststore_location": "no such file", "ssl_truststore_type": "PEM"},
        {"security_protocol": "SSL", "ssl_context": ssl.create_default_context()},
        {**SASL, **USER},
        {**SASL, **USER, "sasl_mechanism": "SCRAM-SHA-512", "security_protocol": "SASL_SSL"},
        {**SASL, "sasl_mechanism": "PLAIN", "sasl_jaas_config": f'{PLAIN} username="a" password="{SECRET}";'},
        {**OAUTH, **CLIENT, "sasl_oauthbearer_scope": "kafka"},
        {**OAUTH, "sasl_oauth_token_provider": provider},
    ],
)
def test_what_goes_together(options):
    made = SecurityOptions(**options)
    assert SECRET not in repr(made)
    assert SECRET not in repr({name: getattr(made, name) for name in NAMES})
    if "ssl_context" not in options:
        assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(
    ("options", "option", "rule"),
    [
        ({"security_protocol": "TLS"}, "security_protocol", "must be one of PLAINTEXT, SSL"),
        ({"ssl_truststore_location": "ca.pem"}, "ssl_truststore_location", "needs security_protocol SSL or SASL_SSL"),
        ({**SASL, **USER, "ssl_key_password": SECRET}, "ssl_key_password", "needs security_protocol SSL"),
        (USER, "sasl_mechanism", "needs security_protocol SASL_PLAINTEXT or SASL_SSL, not PLAINTEXT"),
        ({"security_protocol": "SSL", **USER}, "sasl_mechanism", "needs security_protocol SASL"),
        (
            {"security_protocol": "SSL", "ssl_context": ssl.create_default_context(), "ssl_protocol": "TLSv1.3"},
            "ssl_protocol",
            "together with ssl_context",
        ),
        ({"security_protocol": "SSL", "ssl_context": True}, "ssl_context", "must be an ssl.SSLContext"),
        (SASL, "sasl_mechanism", "SASL_PLAINTEXT needs one of PLAIN, SCRAM-SHA-256"),
        ({**SASL, **USER, "sasl_kerberos_service_name": "kafka"}, "sasl_kerberos_service_name", "only for .* GSSAPI"),
        ({**SASL, "sasl_mechanism": "GSSAPI", "sasl_plain_username": "a"}, "sasl_plain_username", "not for .* GSSAPI"),
        ({**SASL, "sasl_mechanism": "GSSAPI", "sasl_oauthbearer_scope": "x"}, "sasl_oauthbearer_scope", "only for"),
        ({"sasl_kerberos_service_name": "kafka"}, "sasl_kerberos_service_name", "needs security_protocol SASL"),
        ({**SASL, "sasl_mechanism": "plain"}, "sasl_mechanism", "must be one of PLAIN"),
        ({**SASL, "sasl_mechanism": "PLAIN"}, "sasl_plain_username", "must be given"),
        ({**SASL, **USER, "sasl_plain_password": ""}, "sasl_plain_password", "must be given"),
        ({**SASL, **USER, "sasl_plain_password": 7}, "sasl_plain_password", "must be a text"),
        (
            {**SASL, **USER, "sasl_jaas_config": f"{PLAIN} username=a password={SECRET};"},
            "sasl_plain_username",
            "together with sasl_jaas_config",
        ),
        ({**SASL, **USER, "sasl_oauthbearer_scope": "x"}, "sasl_oauthbearer_scope", "only for sasl_mechanism OAUTH"),
        ({**OAUTH}, "sasl_oauthbearer_token_endpoint_url", "OAUTHBEARER needs it, or sasl_oauth_token_provider"),
        (
            {**OAUTH, **CLIENT, "sasl_oauth_token_provider": provider},
            "sasl_oauthbearer_token_endpoint_url",
            "together with sasl_oauth_token_provider",
        ),
        ({**OAUTH, "sasl_oauth_token_provider": "token"}, "sasl_oauth_token_provider", "must be a function"),
        ({**OAUTH, **USER, "sasl_mechanism": "OAUTHBEARER"}, "sasl_plain_username", "is not for"),
        ({**OAUTH, "sasl_oauthbearer_scope": "x"}, "sasl_oauthbearer_scope", "needs sasl_oauthbearer_token_endpoint"),
        (
            {**OAUTH, **CLIENT, "sasl_oauthbearer_token_endpoint_url": "file:///token"},
            "sasl_oauthbearer_token_endpoint_url",
            "must begin with https",
        ),
        (
            {**OAUTH, **CLIENT, "sasl_oauthbearer_client_credentials_client_secret": None},
            "sasl_oauthbearer_client_credentials_client_secret",
            "must be given",
        ),
    ],
)
def test_what_does_not_go_together(options, option, rule):
    with pytest.raises(InvalidOptionError, match=rule) as caught:
        SecurityOptions(**options)
    assert caught.value.option == option
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown", "rule"),
    [
        (f"https://me:{SECRET}@login/", "[hidden]", "must not contain a user or a password"),
        (f"HTTP://{SECRET}@login/", "[hidden]", "must not contain a user or a password"),
        (f"https://me:{SECRET}/", "[hidden]", "is not a URL"),
        (f"https://me:{SECRET}@[::1/", "[hidden]", "is not a URL"),
        ("https:///token", "https:///token", "must contain a host"),
        ("https://login/a b", "https://login/a b", "must not contain spaces"),
        ("https://login/\ud800", "https://login/\\ud800", "surrogate"),
    ],
)
@pytest.mark.parametrize("others", [{**OAUTH, **CLIENT}, {}], ids=["OAUTHBEARER", "PLAINTEXT"])
def test_the_url_of_a_token_endpoint(url, shown, rule, others):
    with pytest.raises(InvalidOptionError, match=rule) as caught:
        SecurityOptions(**others | {"sasl_oauthbearer_token_endpoint_url": url})
    assert str(caught.value).startswith(f"sasl_oauthbearer_token_endpoint_url='{shown}': ")
    assert SECRET not in str(caught.value)


def test_the_scheme_of_a_url_may_be_in_upper_case():
    SecurityOptions(**OAUTH, **CLIENT | {"sasl_oauthbearer_token_endpoint_url": "HTTPS://login:443/token"})


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("sasl_plain_username", "al\ud800ice"),
        ("sasl_plain_password", f"{SECRET}\udcff"),
        ("sasl_jaas_config", f'{PLAIN} username="a" password="{SECRET}\udfff";'),
    ],
)
def test_a_text_that_cannot_be_encoded(mechanism, option, value):
    with pytest.raises(InvalidOptionError, match=f"^{option}=.*: must not contain half of a surrogate pair") as caught:
        SecurityOptions(**SASL | USER | {"sasl_mechanism": mechanism, option: value})
    assert SECRET not in str(caught.value)


def test_a_file_name_need_not_be_utf_8():
    SecurityOptions(security_protocol="SSL", ssl_truststore_location="ca\udcff.pem", ssl_truststore_type="PEM")


def test_every_client_has_the_options_and_hides_secrets():
    made = ProducerOptions(**SASL, **USER)
    assert SECRET not in repr(made)
    again = SecurityOptions(**security_keywords(made))
    assert again.sasl_plain_password == SECRET
    assert again.security_protocol == "SASL_PLAINTEXT"
