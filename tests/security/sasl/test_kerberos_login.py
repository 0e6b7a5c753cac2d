"""The options of Krb5LoginModule."""

from __future__ import annotations

import pytest

from security.jaas import JaasError
from security.sasl.kerberos_login import KerberosLogin, service_name

KEYTAB = {"useKeyTab": "true", "keyTab": "/k", "principal": "kafka/h@R"}


@pytest.mark.parametrize(
    ("options", "login"),
    [
        (KEYTAB, KerberosLogin("/k", "kafka/h@R")),
        (KEYTAB | {"storeKey": "true", "doNotPrompt": "true", "debug": "x"}, KerberosLogin("/k", "kafka/h@R")),
        (KEYTAB | {"useKeyTab": "TRUE"}, KerberosLogin("/k", "kafka/h@R")),
        ({"useTicketCache": "true"}, KerberosLogin(uses_ticket_cache=True)),
        (
            {"useTicketCache": "true", "ticketCache": "/t", "principal": "a"},
            KerberosLogin(None, "a", uses_ticket_cache=True, ticket_cache="/t"),
        ),
        (KEYTAB | {"useTicketCache": "true"}, KerberosLogin("/k", "kafka/h@R", uses_ticket_cache=True)),
        (KEYTAB | {"useKeyTab": "false", "useTicketCache": "true"}, KerberosLogin(None, "kafka/h@R", True)),
    ],
)
def test_a_client(options: dict[str, str], login: KerberosLogin) -> None:
    assert KerberosLogin.of_client(options) == login


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({}, "useKeyTab=true or useTicketCache=true"),
        ({"keyTab": "/k", "principal": "a"}, "useKeyTab=true or useTicketCache=true"),
        ({"useKeyTab": "true", "principal": "a"}, "must contain keyTab"),
        ({"useKeyTab": "true", "keyTab": "/k"}, "must contain principal"),
        (KEYTAB | {"useKeyTab": "yes"}, "useKeyTab must be true or false"),
        ({"useTicketCache": "1"}, "useTicketCache must be true or false"),
    ],
)
def test_a_client_that_is_refused(options: dict[str, str], rule: str) -> None:
    with pytest.raises(JaasError, match=rule):
        KerberosLogin.of_client(options)


def test_a_server() -> None:
    assert KerberosLogin.of_server(KEYTAB | {"storeKey": "true"}) == KerberosLogin("/k", "kafka/h@R")


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({}, "useKeyTab=true: a listener"),
        ({"useTicketCache": "true"}, "useKeyTab=true: a listener"),
        ({"useKeyTab": "true", "principal": "a"}, "must contain keyTab"),
        ({"useKeyTab": "true", "keyTab": "/k"}, "must contain principal"),
    ],
)
def test_a_server_that_is_refused(options: dict[str, str], rule: str) -> None:
    with pytest.raises(JaasError, match=rule):
        KerberosLogin.of_server(options)


@pytest.mark.parametrize(
    ("option", "setting", "name"),
    [
        (None, None, None),
        (None, "", None),
        ("kafka", None, "kafka"),
        (None, "kafka", "kafka"),
        ("kafka", "kafka", "kafka"),
    ],
)
def test_the_service(option: str | None, setting: str | None, name: str | None) -> None:
    assert service_name({} if option is None else {"serviceName": option}, setting) == name


def test_two_services_are_refused() -> None:
    with pytest.raises(JaasError, match=r"differs from sasl\.kerberos\.service\.name"):
        service_name({"serviceName": "kafka"}, "other")
