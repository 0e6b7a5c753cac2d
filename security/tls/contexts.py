"""Contexts of Python's ssl for the settings of a listener or of a client.

OpenSSL reads private keys from files only. A key is written for the moment of the load, encrypted with a random
password, to a file with mode 0600 in a private folder; the password never leaves the process.

Sessions are never resumed: a resumed session would not check the client's certificate again, so a client whose
authority is no longer trusted could come back.
"""

from __future__ import annotations

import secrets
import ssl
import tempfile
from pathlib import Path
from typing import NamedTuple

from security.tls.alerts import AlertingContext
from security.tls.cipher_suites import DEFAULT_CIPHERS, openssl_ciphers
from security.tls.errors import TlsConfigError
from security.tls.settings import DEFAULT_PROTOCOLS, TlsSettings
from security.tls.stores import KeyStore, load_key_store, load_trust_store

CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
"""The values of ssl.client.auth."""

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_DISABLED_VERSIONS = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")  # Java's names; Java has disabled them, too
_PROTOCOLS = ("SSL", "TLS", "SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")
_KEY_MANAGERS = ("SunX509", "NewSunX509", "PKIX")
_TRUST_MANAGERS = ("SunX509", "PKIX", "SunPKIX", "X509", "X.509")
_RANDOMS = ("SHA1PRNG", "DRBG", "NativePRNG", "NativePRNGBlocking", "NativePRNGNonBlocking")
_ENGINE_FACTORY = "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory"


class LoadedTls(NamedTuple):
    """A context, and the certificate that it shows to the peer (DER; None without a key store)."""

    context: ssl.SSLContext
    certificate: bytes | None


def server_context(settings: TlsSettings, client_auth: str = "none") -> ssl.SSLContext:
    """Return the context of a listener; see `server_tls`."""
    return server_tls(settings, client_auth).context


def server_tls(settings: TlsSettings, client_auth: str) -> LoadedTls:
    """Return the context of a listener. client_auth: a value of ssl.client.auth. Raises TlsConfigError.

    Without a key store, every handshake fails, as in Kafka. Without a trust store, no client certificate is trusted.
    """
    if client_auth not in CLIENT_AUTH:
        raise TlsConfigError("ssl.client.auth", f"must be one of {', '.join(CLIENT_AUTH)}")
    context, key_store = _context(ssl.PROTOCOL_TLS_SERVER, settings)
    context.options |= ssl.OP_NO_TICKET
    context.num_tickets = 0
    context.verify_mode = CLIENT_AUTH[client_auth]
    trusted = load_trust_store(settings)
    if trusted:
        _trust(context, trusted)
    return LoadedTls(context, _certificate_of(key_store))


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Return the context of a client; see `client_tls`."""
    return client_tls(settings).context


def client_tls(settings: TlsSettings) -> LoadedTls:
    """Return the context of a client. Without a trust store, the system's authorities count. Raises TlsConfigError.

    Host names are verified unless ssl.endpoint.identification.algorithm is empty.
    """
    algorithm = settings.endpoint_identification_algorithm
    if algorithm.lower() not in ("https", ""):
        raise TlsConfigError("ssl.endpoint.identification.algorithm", "must be https, or empty: names are not verified")
    context, key_store = _context(ssl.PROTOCOL_TLS_CLIENT, settings)
    context.check_hostname = bool(algorithm)
    context.verify_mode = ssl.CERT_REQUIRED
    trusted = load_trust_store(settings)
    if trusted is None:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    elif trusted:
        _trust(context, trusted)
    return LoadedTls(context, _certificate_of(key_store))


def _certificate_of(key_store: KeyStore | None) -> bytes | None:
    return None if key_store is None else key_store.chain[0]


def _context(kind: int, settings: TlsSettings) -> tuple[ssl.SSLContext, KeyStore | None]:
    _check_names(settings)
    context = AlertingContext(kind) if kind == ssl.PROTOCOL_TLS_SERVER else ssl.SSLContext(kind)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_ciphers(DEFAULT_CIPHERS)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as in Java, any certificate of a trust store is an anchor
    _choose_versions(context, settings)
    key_store = load_key_store(settings, _new_password)
    if key_store is not None:
        _use(context, key_store, "ssl.keystore.key" if settings.keystore_key else "ssl.keystore.location")
    return context, key_store


def _check_names(settings: TlsSettings) -> None:
    """Check the settings that choose parts of Java: OpenSSL replaces those parts, so only known names pass."""
    if settings.provider:
        raise TlsConfigError("ssl.provider", "must not be set: Ottla has no other provider than OpenSSL")
    if settings.engine_factory_class not in (None, "", _ENGINE_FACTORY):
        raise TlsConfigError("ssl.engine.factory.class", "must not be set: Java classes cannot be used")
    for setting, value, known in (
        ("ssl.protocol", settings.protocol, _PROTOCOLS),
        ("ssl.keymanager.algorithm", settings.keymanager_algorithm, _KEY_MANAGERS),
        ("ssl.trustmanager.algorithm", settings.trustmanager_algorithm, _TRUST_MANAGERS),
        ("ssl.secure.random.implementation", settings.secure_random_implementation or _RANDOMS[0], _RANDOMS),
    ):
        if value not in known:
            raise TlsConfigError(setting, f"must be one of {', '.join(known)}")


def _choose_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    names = settings.enabled_protocols or DEFAULT_PROTOCOLS
    unknown = [name for name in names if name not in _VERSIONS and name not in _DISABLED_VERSIONS]
    versions = [_VERSIONS[name] for name in names if name in _VERSIONS]
    if unknown or not versions:
        rule = f"must contain {' or '.join(_VERSIONS)}, and nothing unknown; older versions are never used"
        raise TlsConfigError("ssl.enabled.protocols", rule)
    if settings.cipher_suites:
        has_newer, older = openssl_ciphers(settings.cipher_suites)
        fits = {ssl.TLSVersion.TLSv1_3: has_newer, ssl.TLSVersion.TLSv1_2: older is not None}
        versions = [version for version in versions if fits[version]]
        if not versions:
            raise TlsConfigError("ssl.cipher.suites", "has no cipher suite for ssl.enabled.protocols")
        if older is not None:
            _choose_ciphers(context, older)
    context.minimum_version, context.maximum_version = min(versions), max(versions)


def _choose_ciphers(context: ssl.SSLContext, names: str) -> None:
    try:
        context.set_ciphers(names)
    except ssl.SSLError:
        raise TlsConfigError("ssl.cipher.suites", "OpenSSL knows none of the cipher suites") from None
    known = {cipher["name"] for cipher in context.get_ciphers()}
    unknown = [name for name in names.split(":") if name not in known]
    if unknown:
        raise TlsConfigError("ssl.cipher.suites", f"OpenSSL does not know {', '.join(unknown)}")


def _new_password() -> bytes:
    return secrets.token_hex(32).encode()


def _use(context: ssl.SSLContext, store: KeyStore, setting: str) -> None:
    certificates = "".join(ssl.DER_cert_to_PEM_cert(der) for der in store.chain)
    try:
        with tempfile.TemporaryDirectory(prefix="ottla-tls-") as folder:  # mode 0700
            file = Path(folder) / "key.pem"
            file.touch(mode=0o600)
            file.write_bytes(store.key + certificates.encode())
            context.load_cert_chain(file, password=store.password)
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None)
        if reason == "KEY_VALUES_MISMATCH":
            rule = "the private key does not belong to the certificate"
        else:
            rule = f"OpenSSL refuses the key or its certificate ({reason or 'unknown reason'})"
        raise TlsConfigError(setting, rule) from None
    except OSError as error:  # after SSLError, which is one
        rule = f"OpenSSL reads keys from files only, and no temporary file can be written: {error.strerror or error}"
        raise TlsConfigError(setting, rule) from None


def _trust(context: ssl.SSLContext, certificates: list[bytes]) -> None:
    try:
        context.load_verify_locations(cadata=b"".join(certificates))
    except (ssl.SSLError, ValueError):  # ValueError: all of them are empty
        raise TlsConfigError("ssl.truststore.location", "contains a damaged certificate") from None
