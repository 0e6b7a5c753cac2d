"""Which SASL configurations start: those recorded from Apache Kafka 3.9, and what Ottla refuses besides."""

from __future__ import annotations

import csv

import pytest

from broker.authentication.settings import sasl_settings
from broker.settings.config import BrokerConfig
from security.jaas import KERBEROS_MODULE, PLAIN_MODULE, SCRAM_MODULE
from security.tls.settings import TlsSettings
from storage.setting import ConfigError
from support.reference import REFERENCE
from support.sasl import (
    HANDLER,
    PLAIN_JAAS,
    SIGNED_HANDLER,
    gssapi,
    listener_settings,
    sasl_listeners,
    signed,
    unsecured,
)

LISTENER = "SASL_PLAINTEXT"
PREFIX = "listener.name.sasl_plaintext."
JAAS = f"{PREFIX}plain.sasl.jaas.config"
PLAIN = listener_settings(LISTENER, "PLAIN")
OAUTH = listener_settings(LISTENER, "OAUTHBEARER")

KERBEROS = gssapi(LISTENER, "/etc/kafka.keytab", "kafka/broker.example.org@EXAMPLE.ORG")
KERBEROS_JAAS = f"{PREFIX}gssapi.sasl.jaas.config"
RULES = "sasl.kerberos.principal.to.local.rules"


def offering(*names: str) -> dict[str, str]:
    """PLAIN is set up, and these names are enabled."""
    return PLAIN | {f"{PREFIX}sasl.enabled.mechanisms": ",".join(names)}


def jaas(line: str) -> dict[str, str]:
    return PLAIN | {JAAS: line}


ONLY_ENABLED = {"sasl.enabled.mechanisms": "PLAIN"}
RECORDED: dict[str, dict[str, str]] = {
    "SASL listener, nothing else (GSSAPI)": {},
    "PLAIN enabled, no JAAS configuration": ONLY_ENABLED,
    "PLAIN with listener.name.sasl_plaintext.plain.sasl.jaas.config": PLAIN,
    "only sasl.jaas.config": ONLY_ENABLED | {"sasl.jaas.config": PLAIN_JAAS},
    "only listener.name.sasl_plaintext.sasl.jaas.config (no mechanism)": ONLY_ENABLED
    | {f"{PREFIX}sasl.jaas.config": PLAIN_JAAS},
    "JAAS prefix with the mechanism in upper case": ONLY_ENABLED | {f"{PREFIX}PLAIN.sasl.jaas.config": PLAIN_JAAS},
    "JAAS: without semicolon": jaas(PLAIN_JAAS.rstrip(";")),
    "JAAS: empty": jaas(""),
    "JAAS: class not found": jaas("no.Such required;"),
    "JAAS: no control flag": jaas(f'{PLAIN_MODULE} user_alice="alice-secret";'),
    "JAAS: unknown control flag": jaas(f"{PLAIN_MODULE} needed;"),
    "JAAS: two modules": jaas(PLAIN_JAAS + PLAIN_JAAS),
    "JAAS: unquoted option": jaas(f"{PLAIN_MODULE} required user_alice=alice;"),
    "JAAS: option without value": jaas(f"{PLAIN_MODULE} required user_alice;"),
    "JAAS: module of another mechanism": jaas(f"{SCRAM_MODULE} required;"),
    "JAAS: no users": jaas(f"{PLAIN_MODULE} required;"),
    "sasl.enabled.mechanisms=''": offering(),
    "sasl.enabled.mechanisms='FOO'": offering("FOO"),
    "sasl.enabled.mechanisms='plain'": offering("plain"),
    "sasl.enabled.mechanisms='PLAIN,FOO'": offering("PLAIN", "FOO"),
    "sasl.server.callback.handler.class=no.Such": PLAIN | {HANDLER: "no.Such"},
    f"listener.name.sasl_plaintext.plain.{HANDLER}=no.Such": PLAIN | {f"{PREFIX}plain.{HANDLER}": "no.Such"},
    f"listener.name.sasl_plaintext.plain.{HANDLER}=java.lang.String": PLAIN
    | {f"{PREFIX}plain.{HANDLER}": "java.lang.String"},
    "sasl.kerberos.principal.to.local.rules=FOO": PLAIN | {"sasl.kerberos.principal.to.local.rules": "FOO"},
    "connections.max.reauth.ms=-1": PLAIN | {"connections.max.reauth.ms": "-1"},
    "connections.max.reauth.ms=abc": PLAIN | {"connections.max.reauth.ms": "abc"},
    "sasl.server.max.receive.size=0": PLAIN | {"sasl.server.max.receive.size": "0"},
    "sasl.server.max.receive.size=-1": PLAIN | {"sasl.server.max.receive.size": "-1"},
    "OAUTHBEARER unsecured, JAAS without options": OAUTH | unsecured(LISTENER),
    'OAUTHBEARER unsecured, unsecuredLoginLifetimeSeconds="abc"': OAUTH
    | unsecured(LISTENER)
    | {
        f"{PREFIX}oauthbearer.sasl.jaas.config": OAUTH[f"{PREFIX}oauthbearer.sasl.jaas.config"].replace(
            ";", ' unsecuredLoginLifetimeSeconds="abc";'
        )
    },
    "OAUTHBEARER validator handler, no JWKS url": OAUTH | {f"{PREFIX}oauthbearer.{HANDLER}": SIGNED_HANDLER},
    "OAUTHBEARER validator handler, JWKS file": OAUTH | signed(LISTENER, "file:///jwks.json"),
    "OAUTHBEARER validator handler, JWKS url prefixed with listener and mechanism": OAUTH
    | signed(LISTENER, "file:///jwks.json"),
    "OAUTHBEARER validator handler, JWKS url prefixed with the listener": OAUTH
    | {
        f"{PREFIX}oauthbearer.{HANDLER}": SIGNED_HANDLER,
        f"{PREFIX}sasl.oauthbearer.jwks.endpoint.url": "file:///jwks.json",
    },
}
"""The settings beside the listener, by the name of the recorded configuration."""
DIFFERENT = {"JAAS: module of another mechanism"}
"""Kafka starts, and nobody can log in."""


def recorded_results() -> dict[str, str]:
    with (REFERENCE / "security" / "start-up.tsv").open() as file:
        return {row["configuration"]: row["result"] for row in csv.DictReader(file, delimiter="\t")}


def load(values: dict[str, str]) -> BrokerConfig:
    return BrokerConfig(sasl_listeners(LISTENER) | values)


@pytest.mark.parametrize("name", RECORDED)
def test_what_starts_as_recorded(name: str) -> None:
    starts = recorded_results()[name] == "starts" and name not in DIFFERENT
    if starts:
        load(RECORDED[name])
        return
    with pytest.raises(ConfigError) as refused:
        load(RECORDED[name])
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("values", "name", "rule"),
    [
        ({}, KERBEROS_JAAS, r"must be set because GSSAPI is enabled \(the default of sasl.enabled.mechanisms\)"),
        (offering("PLAIN", "GSSAPI"), KERBEROS_JAAS, "must be set because GSSAPI is enabled, for example"),
        (KERBEROS | {KERBEROS_JAAS: f"{KERBEROS_MODULE} required;"}, KERBEROS_JAAS, "must contain useKeyTab=true"),
        (
            KERBEROS | {KERBEROS_JAAS: f"{KERBEROS_MODULE} required useKeyTab=true keyTab=x;"},
            KERBEROS_JAAS,
            "must contain principal",
        ),
        (KERBEROS | {KERBEROS_JAAS: PLAIN_JAAS}, KERBEROS_JAAS, "the login module of GSSAPI must be"),
        (KERBEROS | {"sasl.kerberos.service.name": ""}, "sasl.kerberos.service.name", "must be set because GSSAPI"),
        (
            KERBEROS | {KERBEROS_JAAS: KERBEROS[KERBEROS_JAAS].replace(";", " serviceName=other;")},
            KERBEROS_JAAS,
            "its serviceName differs from sasl.kerberos.service.name",
        ),
        (KERBEROS | {RULES: "FOO"}, RULES, "'FOO' must be DEFAULT, or RULE:"),
        (KERBEROS | {RULES: ""}, RULES, "there must be a rule"),
        (KERBEROS | {f"{PREFIX}{RULES}": "DEFAULT,BAR"}, f"{PREFIX}{RULES}", "'BAR' must be DEFAULT"),
        (KERBEROS | {f"{PREFIX}gssapi.{HANDLER}": "no.Such"}, f"{PREFIX}gssapi.{HANDLER}", "Kafka's own handlers"),
        (ONLY_ENABLED, JAAS, "must be set because PLAIN is enabled"),
        (jaas(f"{SCRAM_MODULE} required;"), JAAS, "the login module of PLAIN must be"),
        (OAUTH, f"{PREFIX}oauthbearer.{HANDLER}", "Kafka's default.*accepts tokens without a signature: name it"),
        (OAUTH | {HANDLER: SIGNED_HANDLER}, f"{PREFIX}oauthbearer.{HANDLER}", "must be set because OAUTHBEARER"),
        (OAUTH | {f"{PREFIX}{HANDLER}": SIGNED_HANDLER}, f"{PREFIX}{HANDLER}", "name the mechanism"),
        (
            OAUTH | signed(LISTENER, "ftp://issuer/keys"),
            f"{PREFIX}oauthbearer.sasl.oauthbearer.jwks",
            "must begin with file:",
        ),
        (
            OAUTH | signed(LISTENER, "https://me:hunter2@issuer/keys"),
            f"{PREFIX}oauthbearer.sasl.oauthbearer.jwks",
            "=.hidden.: must not contain a user or a password",
        ),
        (
            OAUTH | signed(LISTENER, "https://me:hunter2@[issuer/keys"),
            f"{PREFIX}oauthbearer.sasl.oauthbearer.jwks",
            "=.hidden.: is not a URL",
        ),
    ],
)
def test_what_is_refused_names_the_setting_and_the_rule(values: dict[str, str], name: str, rule: str) -> None:
    with pytest.raises(ConfigError, match=rule) as refused:
        load(values)
    assert refused.value.name.startswith(name)


def test_a_name_that_is_no_mechanism_is_warned_about() -> None:
    (warning,) = load(offering("PLAIN", "plain")).warnings
    assert "plain is no SASL mechanism" in warning


def test_the_most_specific_setting_counts() -> None:
    config = load(
        listener_settings(LISTENER, "PLAIN", "SCRAM-SHA-512", connections_max_reauth_ms="2")
        | {"connections.max.reauth.ms": "1", f"{PREFIX}plain.connections.max.reauth.ms": "3"}
    )
    found = sasl_settings(config.of_listener(LISTENER))
    assert {name: one.max_reauth_ms for name, one in found.mechanisms.items()} == {"PLAIN": 3, "SCRAM-SHA-512": 2}
    assert found.offered == ("PLAIN", "SCRAM-SHA-512")
    assert "secret" not in repr(found)


def test_tls_of_the_key_set_is_in_the_jaas_line() -> None:
    """As in Kafka, the settings of the listener do not count."""
    own = 'ssl.truststore.location="/ca.pem" ssl.truststore.type=PEM ssl.enabled.protocols="TLSv1.2, TLSv1.3"'
    values = OAUTH | signed(LISTENER, "https://issuer/keys") | {"ssl.truststore.location": "/other.pem"}
    name = f"{PREFIX}oauthbearer.sasl.jaas.config"
    values[name] = values[name].replace(";", f" {own};")
    tokens = sasl_settings(load(values).of_listener(LISTENER)).mechanisms["OAUTHBEARER"].tokens
    assert tokens is not None
    assert tokens.tls == TlsSettings(
        truststore_location="/ca.pem", truststore_type="PEM", enabled_protocols=("TLSv1.2", "TLSv1.3")
    )


def test_kerberos() -> None:
    settings = sasl_settings(load(KERBEROS | {RULES: "RULE:[1:$1](a.*)s/a/b/,DEFAULT"}).of_listener(LISTENER))
    (mechanism,) = settings.mechanisms.values()
    assert mechanism.kerberos is not None
    assert mechanism.kerberos.keytab == "/etc/kafka.keytab"
    assert mechanism.kerberos.principal == "kafka/broker.example.org@EXAMPLE.ORG"
    assert mechanism.kerberos.rules == ("RULE:[1:$1](a.*)s/a/b/", "DEFAULT")
    assert settings.offered == ("GSSAPI",)


def test_mechanisms_are_offered_in_the_order_of_kafka() -> None:
    names = ("OAUTHBEARER", "SCRAM-SHA-256", "GSSAPI", "SCRAM-SHA-512", "PLAIN")
    others = listener_settings(LISTENER, *(name for name in names if name != "GSSAPI"))
    values = KERBEROS | others | unsecured(LISTENER) | {f"{PREFIX}sasl.enabled.mechanisms": ",".join(names)}
    offered = sasl_settings(load(values).of_listener(LISTENER)).offered
    assert offered == ("PLAIN", "SCRAM-SHA-512", "GSSAPI", "SCRAM-SHA-256", "OAUTHBEARER")
