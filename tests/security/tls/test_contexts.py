"""Contexts for listeners and clients: what a handshake between them gives, in memory."""

import ssl
import tempfile

import pytest

from security.tls.contexts import client_context, server_context
from security.tls.errors import TlsConfigError
from security.tls.settings import TlsSettings
from support.certificates import authority, client_certificate, other_authority, server_certificate


def pem(issued=None, trusted=None, **others):
    values = dict(others)
    if issued is not None:
        values.update(keystore_type="PEM", keystore_key=issued.key_pem(), keystore_certificate_chain=issued.chain_pem())
    if trusted is not None:
        values.update(truststore_type="PEM", truststore_certificates=trusted.pem())
    return TlsSettings(**values)


def handshake(server, client, host="localhost"):
    """Run a handshake and one byte each way through memory; return both ends. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_end = server.wrap_bio(to_server, to_client, server_side=True)
    client_end = client.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(6):
        for end in (client_end, server_end):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    client_end.write(b"x")
    assert server_end.read(1) == b"x"
    return server_end, client_end


def client(**others):
    return client_context(pem(trusted=authority(), **others))


def server(client_auth="none", trusted=None, **others):
    return server_context(pem(server_certificate(), trusted, **others), client_auth)


def test_tls_1_3_is_chosen():
    server_end, client_end = handshake(server(), client())
    assert server_end.version() == client_end.version() == "TLSv1.3"
    assert server_end.getpeercert(True) is None


@pytest.mark.parametrize(
    "settings", [{"enabled_protocols": ("TLSv1.2",)}, {"enabled_protocols": ("TLSv1.1", "TLSv1.2")}]
)
def test_only_enabled_versions_are_used(settings):
    assert handshake(server(**settings), client())[0].version() == "TLSv1.2"


def test_a_client_verifies_the_authority_and_the_name():
    with pytest.raises(ssl.SSLCertVerificationError, match="self-signed"):
        handshake(server(), client_context(pem(trusted=other_authority())))
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(server(), client(), "broker.example")
    handshake(server(), client(endpoint_identification_algorithm=""), "broker.example")


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_required_client_certificates(version):
    one = server("required", authority(), enabled_protocols=(version,))
    with_certificate = client_context(pem(client_certificate(), authority()))
    assert handshake(one, with_certificate)[0].getpeercert(True)
    with pytest.raises(ssl.SSLError):
        handshake(one, client())
    stranger = client_context(pem(other_authority().issue("CN=client"), authority()))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(one, stranger)
    expired = client_context(pem(authority().issue("CN=client", expired=True), authority()))
    with pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        handshake(one, expired)
    for_servers = client_context(pem(authority().issue("CN=client", usage="server"), authority()))
    with pytest.raises(ssl.SSLCertVerificationError, match="purpose"):
        handshake(one, for_servers)


def test_requested_client_certificates_may_be_missing_but_not_untrusted():
    one = server("requested", authority())
    assert handshake(one, client())[0].getpeercert(True) is None
    stranger = client_context(pem(other_authority().issue("CN=client"), authority()))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(one, stranger)


def test_without_a_trust_store_a_listener_trusts_nobody():
    with pytest.raises(ssl.SSLError):
        handshake(server("required"), client_context(pem(client_certificate(), authority())))


def test_a_certificate_of_the_trust_store_is_trusted_itself():
    one = client_certificate()
    context = server_context(
        pem(
            server_certificate(),
            truststore_type="PEM",
            truststore_certificates=one.chain_pem().split("-----END")[0] + "-----END CERTIFICATE-----\n",
        ),
        "required",
    )
    handshake(context, client_context(pem(one, authority())))


def test_cipher_suites_by_javas_names():
    suites = ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",)
    server_end, _ = handshake(server(cipher_suites=suites), client())
    assert server_end.version() == "TLSv1.2"
    assert server_end.cipher()[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"


def test_a_listener_without_a_key_store_accepts_nobody():
    with pytest.raises(ssl.SSLError):
        handshake(server_context(TlsSettings()), client())


def test_sessions_are_not_resumed():
    context, one = server(enabled_protocols=("TLSv1.2",)), client()
    first = handshake(context, one)[1]
    assert not first.session.has_ticket


def test_nothing_of_a_key_stays_on_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    server()
    assert list(tmp_path.iterdir()) == []


REFUSED = {
    "unknown version": ({"enabled_protocols": ("TLSv1.2", "FOO")}, "ssl.enabled.protocols"),
    "only an old version": ({"enabled_protocols": ("TLSv1.1",)}, "ssl.enabled.protocols"),
    "unknown suite": ({"cipher_suites": ("FOO",)}, "ssl.cipher.suites"),
    "an unknown suite beside a known one": (
        {"cipher_suites": ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "TLS_FOO_WITH_BAR")},
        "ssl.cipher.suites",
    ),
    "an operator of OpenSSL": ({"cipher_suites": ("!AES:ALL",)}, "ssl.cipher.suites"),
    "one suite of TLS 1.3": ({"cipher_suites": ("TLS_AES_128_GCM_SHA256",)}, "ssl.cipher.suites"),
    "no suite for the version": (
        {"cipher_suites": ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",), "enabled_protocols": ("TLSv1.3",)},
        "ssl.cipher.suites",
    ),
    "ssl.protocol": ({"protocol": "FOO"}, "ssl.protocol"),
    "ssl.provider": ({"provider": "FOO"}, "ssl.provider"),
    "ssl.keymanager.algorithm": ({"keymanager_algorithm": "FOO"}, "ssl.keymanager.algorithm"),
    "ssl.trustmanager.algorithm": ({"trustmanager_algorithm": "FOO"}, "ssl.trustmanager.algorithm"),
    "ssl.secure.random.implementation": (
        {"secure_random_implementation": "FOO"},
        "ssl.secure.random.implementation",
    ),
    "ssl.engine.factory.class": ({"engine_factory_class": "no.Such"}, "ssl.engine.factory.class"),
}


@pytest.mark.parametrize(("values", "setting"), REFUSED.values(), ids=REFUSED)
def test_settings_that_are_refused(values, setting):
    with pytest.raises(TlsConfigError) as caught:
        server_context(TlsSettings(**values))
    assert caught.value.setting == setting


def test_a_key_of_another_certificate_is_refused():
    one = server_certificate()
    settings = TlsSettings(
        keystore_type="PEM",
        keystore_key=authority().issue("CN=other").key_pem(),
        keystore_certificate_chain=one.chain_pem(),
    )
    with pytest.raises(TlsConfigError, match="does not belong"):
        server_context(settings)


def test_client_auth_and_host_name_verification_have_known_values():
    for call in (
        lambda: server_context(TlsSettings(), "REQUIRED"),
        lambda: client_context(TlsSettings(endpoint_identification_algorithm="FOO")),
    ):
        with pytest.raises(TlsConfigError):
            call()


def test_settings_are_read_by_kafkas_names_and_hide_their_secrets():
    values = {
        "ssl.keystore.location": "a.p12",
        "ssl.keystore.password": "planted",
        "ssl.enabled.protocols": ("TLSv1.3",),
    }
    settings = TlsSettings.of(values.get)
    assert settings == TlsSettings(
        keystore_location="a.p12", keystore_password="planted", enabled_protocols=("TLSv1.3",)
    )
    assert "planted" not in repr(settings)
