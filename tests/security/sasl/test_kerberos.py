"""Tickets and security contexts of a real KDC."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

from security.sasl.errors import AuthenticationFailedError, SaslError, SaslMessageError
from security.sasl.gss_context import KerberosError
from security.sasl.gssapi_client import GssapiClient
from security.sasl.gssapi_server import GssapiServer
from security.sasl.kerberos_login import KerberosLogin
from security.sasl.kerberos_names import LocalNames
from support.kerberos import HOST, REALM, Realm, running_realm


class Keys(NamedTuple):
    realm: Realm
    broker: Path
    alice: Path


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keys]:
    with running_realm(tmp_path_factory.mktemp("realm")) as realm:
        yield Keys(realm, realm.keytab(f"kafka/{HOST}"), realm.keytab("alice"))


@pytest.fixture
def kerberos() -> Any:
    """The module that needs the package gssapi."""
    return pytest.importorskip("security.sasl.kerberos")


def exchange(keys: Keys, kerberos: Any, rules: tuple[str, ...] = ("DEFAULT",)) -> GssapiServer:
    acceptor = kerberos.Acceptor(str(keys.broker), f"kafka/{HOST}@{REALM}")
    return GssapiServer(acceptor.context(), LocalNames(rules, kerberos.default_realm()))


def login(keys: Keys, kerberos: Any, how: KerberosLogin) -> str:
    """The user of a whole login."""
    server = exchange(keys, kerberos)
    client = GssapiClient(kerberos.initiate(how, "kafka", HOST))
    message: bytes | None = client.first()
    while server.authenticated is None:
        answer = server.step(message or b"")
        message = client.answer(answer or b"")
    assert message is None or client.is_last
    return server.authenticated.principal.name


def by_keytab(keys: Keys) -> KerberosLogin:
    return KerberosLogin(str(keys.alice), "alice")


def test_the_default_realm(keys: Keys, kerberos: Any) -> None:
    assert kerberos.default_realm() == REALM


def test_without_a_default_realm(keys: Keys, kerberos: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "krb5.conf").write_text("[libdefaults]\n")
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    assert kerberos.default_realm() == ""


def test_a_keytab(keys: Keys, kerberos: Any) -> None:
    assert login(keys, kerberos, by_keytab(keys)) == "alice"


def test_a_ticket_cache(keys: Keys, kerberos: Any) -> None:
    tickets = keys.realm.tickets(keys.alice, "alice")
    assert login(keys, kerberos, KerberosLogin(uses_ticket_cache=True, ticket_cache=f"FILE:{tickets}")) == "alice"


def test_the_ticket_cache_of_the_environment(keys: Keys, kerberos: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{keys.realm.tickets(keys.alice, 'alice')}")
    assert login(keys, kerberos, KerberosLogin()) == "alice"
    assert login(keys, kerberos, KerberosLogin(uses_ticket_cache=True)) == "alice"


def test_a_keytab_instead_of_a_ticket_cache_that_is_missing(keys: Keys, kerberos: Any, tmp_path: Path) -> None:
    how = by_keytab(keys)._replace(uses_ticket_cache=True, ticket_cache=f"FILE:{tmp_path / 'missing'}")
    assert login(keys, kerberos, how) == "alice"


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (KerberosLogin("/missing.keytab", "alice"), "/missing.keytab' not found"),
        (KerberosLogin("{alice}", "bob"), f"No key table entry found for bob@{REALM}"),
        (KerberosLogin(uses_ticket_cache=True, ticket_cache="FILE:/missing"), "No credentials cache found"),
        (KerberosLogin(), "No Kerberos credentials available"),
    ],
)
def test_a_login_without_a_ticket(keys: Keys, kerberos: Any, how: KerberosLogin, reason: str) -> None:
    if how.keytab == "{alice}":
        how = how._replace(keytab=str(keys.alice))
    with pytest.raises(KerberosError, match=reason) as refused:
        GssapiClient(kerberos.initiate(how, "kafka", HOST))
    assert not refused.value.is_transient


def test_a_service_that_the_kdc_does_not_know(keys: Keys, kerberos: Any) -> None:
    with pytest.raises(KerberosError, match=f"Server kafka/elsewhere@{REALM} not found"):
        GssapiClient(kerberos.initiate(by_keytab(keys), "kafka", "elsewhere"))


def test_a_kdc_that_cannot_be_reached(
    keys: Keys, kerberos: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", keys.realm.without_kdc())
    bob = keys.realm.keytab("bob")
    with pytest.raises(KerberosError, match="Cannot contact any KDC") as refused:
        kerberos.initiate(KerberosLogin(str(bob), "bob"), "kafka", HOST)
    assert refused.value.is_transient


@pytest.mark.parametrize(
    ("keytab", "principal", "reason"),
    [
        ("/missing.keytab", f"kafka/{HOST}", "/missing.keytab' not found"),
        ("{broker}", "kafka/elsewhere", "No key table entry found for kafka/elsewhere"),
        ("/etc/passwd", f"kafka/{HOST}", "Unsupported key table format"),
    ],
)
def test_a_server_without_a_key(keys: Keys, kerberos: Any, keytab: str, principal: str, reason: str) -> None:
    with pytest.raises(KerberosError, match=reason):
        kerberos.Acceptor(keytab.replace("{broker}", str(keys.broker)), principal)


def test_a_replayed_token_may_be_sent_anew(keys: Keys, kerberos: Any) -> None:
    token = GssapiClient(kerberos.initiate(by_keytab(keys), "kafka", HOST)).first()
    exchange(keys, kerberos).step(token)
    with pytest.raises(SaslMessageError, match="replay"):
        exchange(keys, kerberos).step(token)


def test_tokens_that_are_none(keys: Keys, kerberos: Any) -> None:
    token = GssapiClient(kerberos.initiate(by_keytab(keys), "kafka", HOST)).first()
    changed = bytearray(token)
    changed[-1] ^= 1
    proof = exchange(keys, kerberos).step(token) or b""
    for wrong in (b"x", token[:100], bytes(changed), b"`" + token, proof, b"\0" * 1000):
        with pytest.raises(AuthenticationFailedError):
            exchange(keys, kerberos).step(wrong)


def test_mutated_messages_prove_nobody_else(keys: Keys, kerberos: Any) -> None:
    """Bytes that Kerberos does not sign may change: then the client is still alice."""
    random = Random(1)
    for number in range(150):
        server = exchange(keys, kerberos)
        client = GssapiClient(kerberos.initiate(by_keytab(keys), "kafka", HOST))
        message: bytes | None = client.first()
        with contextlib.suppress(SaslError):
            for step in range(3):
                message = mutated(message or b"", random) if step == number % 3 else message
                message = client.answer(server.step(message or b"") or b"")
        assert server.authenticated is None or server.authenticated.principal.name == "alice"


def mutated(message: bytes, random: Random) -> bytes:
    """Change, insert, remove or cut off bytes."""
    found = bytearray(message)
    place = random.randrange(len(found) + 1)
    match random.randrange(4):
        case 0:
            found[place : place + 1] = random.randbytes(1)
        case 1:
            found[place:place] = random.randbytes(random.randrange(1, 40))
        case 2:
            del found[place : place + random.randrange(1, 60)]
        case _:
            del found[place:]
    return bytes(found)


def test_another_mechanism_of_gss_is_refused(keys: Keys, kerberos: Any) -> None:
    """SPNEGO (RFC 4178) would negotiate Kerberos inside of its own tokens."""
    gssapi = pytest.importorskip("gssapi")
    store = {"client_keytab": str(keys.alice), "ccache": "MEMORY:spnego"}
    name = gssapi.Name("alice", gssapi.NameType.kerberos_principal)
    credentials = gssapi.Credentials(name=name, usage="initiate", store=store)
    service = gssapi.Name(f"kafka@{HOST}", gssapi.NameType.hostbased_service)
    spnego = gssapi.OID.from_int_seq("1.3.6.1.5.5.2")
    token = gssapi.SecurityContext(name=service, creds=credentials, mech=spnego, usage="initiate").step()
    with pytest.raises(AuthenticationFailedError):
        exchange(keys, kerberos).step(token)


@pytest.mark.parametrize(
    ("service", "shown"), [(b"k\r\x1b[m", r"ticket for k\r\x1b[m/elsewhere@"), (b"k\xff\xfea", "failure")]
)
def test_a_reason_contains_no_control_characters(keys: Keys, kerberos: Any, service: bytes, shown: str) -> None:
    """The name of the service is not signed, and is in the reason if the ticket cannot be decrypted."""
    token = bytearray(GssapiClient(kerberos.initiate(by_keytab(keys), "kafka", HOST)).first())
    encrypted = token.index(HOST.encode()) + 100
    token[encrypted] ^= 1
    with pytest.raises(AuthenticationFailedError) as refused:
        exchange(keys, kerberos).step(token.replace(b"kafka", service).replace(b"localhost", b"elsewhere"))
    assert refused.value.reason.isprintable()
    assert shown in refused.value.reason


def test_a_ticket_for_another_service(keys: Keys, kerberos: Any) -> None:
    keys.realm.keytab(f"other/{HOST}")
    token = GssapiClient(kerberos.initiate(by_keytab(keys), "other", HOST)).first()
    with pytest.raises(AuthenticationFailedError):
        exchange(keys, kerberos).step(token)


def test_new_keys_of_the_broker_count_at_once(keys: Keys, kerberos: Any) -> None:
    principal = f"rotated/{HOST}"
    file = keys.realm.keytab(principal)
    acceptor = kerberos.Acceptor(str(file), principal)
    keys.realm.run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {file} {principal}")  # with new keys
    server = GssapiServer(acceptor.context(), LocalNames(["DEFAULT"], REALM))
    token = GssapiClient(kerberos.initiate(by_keytab(keys), "rotated", HOST)).first()
    assert server.step(token)
