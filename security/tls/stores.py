"""Key stores and trust stores: PEM (a file, or text in the settings), PKCS12 and JKS.

The format of a file of the types JKS and PKCS12 is found by its content, as in Java, which reads both under either
name. What the settings may combine is Kafka's (DefaultSslEngineFactory).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from security.tls.errors import TlsConfigError
from security.tls.jks import MAGIC, JksError, JksStore, read_jks
from security.tls.settings import TlsSettings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates
    from cryptography.x509 import Certificate

STORE_TYPES = ("JKS", "PKCS12", "PEM")
_CERTIFICATES = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_PRIVATE_KEY = re.compile(rb"-----BEGIN ((?:[A-Z]+ )?PRIVATE KEY)-----.*?-----END \1-----", re.DOTALL)
_CONVERT = (
    "keytool -importkeystore -srckeystore OLD -srcstoretype {} -destkeystore NEW.p12 -deststoretype PKCS12 converts it"
)


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key in PEM, encrypted with `password`, and its certificates (DER), the key's own first."""

    key: bytes
    password: bytes
    chain: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"KeyStore({len(self.chain)} certificates)"


def require_cryptography(setting: str) -> None:
    """Raise TlsConfigError if the optional library that reads keys and certificates is not installed."""
    try:
        import cryptography  # noqa: F401  # optional
    except ImportError:
        rule = "needs the package cryptography: pip install 'ottla[security]'"
        raise TlsConfigError(setting, rule) from None


def load_key_store(settings: TlsSettings, new_password: Callable[[], bytes]) -> KeyStore | None:
    """Return the key store of the settings; None if there is none, or if it contains no private key.

    new_password: returns a random password, with which the key is encrypted in memory. Raises TlsConfigError.
    """
    kind = _store_type("ssl.keystore.type", settings.keystore_type)
    if settings.keystore_key or settings.keystore_certificate_chain:
        return _inline_key(settings, kind, new_password)
    if not settings.keystore_location:
        if settings.keystore_password:
            raise TlsConfigError("ssl.keystore.password", "needs ssl.keystore.location")
        return None
    require_cryptography("ssl.keystore.location")
    data = _read("ssl.keystore.location", settings.keystore_location)
    if kind == "PEM":
        _refuse_pem_password("ssl.keystore.password", settings.keystore_password)
        return _pem_key("ssl.keystore.location", data, data, settings.key_password, new_password)
    if not settings.keystore_password:
        raise TlsConfigError("ssl.keystore.password", f"must be set: a key store of the type {kind} has a password")
    if data.startswith(MAGIC):
        return _jks_key(data, settings, new_password)
    return _pkcs12_key(data, settings, new_password)


def load_trust_store(settings: TlsSettings) -> list[bytes] | None:
    """Return the trusted certificates (DER); None if the settings name none. Raises TlsConfigError."""
    kind = _store_type("ssl.truststore.type", settings.truststore_type)
    if settings.truststore_certificates:
        setting = "ssl.truststore.certificates"
        if kind != "PEM":
            raise TlsConfigError("ssl.truststore.type", f"must be PEM with {setting}")
        if settings.truststore_location:
            raise TlsConfigError("ssl.truststore.location", f"must not be set with {setting}")
        _refuse_pem_password("ssl.truststore.password", settings.truststore_password)
        return _pem_certificates(setting, settings.truststore_certificates.encode())
    setting = "ssl.truststore.location"
    if not settings.truststore_location:
        if settings.truststore_password:
            raise TlsConfigError("ssl.truststore.password", f"needs {setting}")
        return None
    data = _read(setting, settings.truststore_location)
    if kind == "PEM":
        _refuse_pem_password("ssl.truststore.password", settings.truststore_password)
        return _pem_certificates(setting, data)
    if data.startswith(MAGIC):
        jks = _read_jks("ssl.truststore", data, settings.truststore_password)
        return [*(key.chain[0] for key in jks.keys if key.chain), *jks.trusted]
    if not settings.truststore_password:
        raise TlsConfigError("ssl.truststore.password", "must be set: certificates in PKCS12 are encrypted")
    require_cryptography(setting)
    store = _read_pkcs12("ssl.truststore", data, settings.truststore_password)
    return _trusted_of_pkcs12(store)


def _store_type(setting: str, name: str) -> str:
    kind = name.upper() if name != "PEM" else name
    if kind in ("JCEKS", "BKS", "BCFKS"):
        raise TlsConfigError(setting, f"{kind} is not supported: {_CONVERT.format(kind)}")
    if kind not in STORE_TYPES:
        raise TlsConfigError(setting, f"must be one of {', '.join(STORE_TYPES)}")
    return kind


def _read(setting: str, location: str) -> bytes:
    try:
        return Path(location).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        why = error.strerror if isinstance(error, OSError) else "it is not the name of a file"
        raise TlsConfigError(setting, f"{location} cannot be read: {why}") from None


# -- PEM ---------------------------------------------------------------------------------------------------------------


def _refuse_pem_password(setting: str, password: str | None) -> None:
    if password:
        raise TlsConfigError(setting, "must not be set for PEM, where only the private key has one: ssl.key.password")


def _inline_key(settings: TlsSettings, kind: str, new_password: Callable[[], bytes]) -> KeyStore:
    setting = "ssl.keystore.key"
    if kind != "PEM":
        raise TlsConfigError("ssl.keystore.type", f"must be PEM with {setting}")
    if settings.keystore_location is not None:  # not even empty, as in Kafka
        raise TlsConfigError("ssl.keystore.location", f"must not be set with {setting}")
    _refuse_pem_password("ssl.keystore.password", settings.keystore_password)
    if not settings.keystore_key:
        raise TlsConfigError(setting, "must be set with ssl.keystore.certificate.chain")
    if not settings.keystore_certificate_chain:
        raise TlsConfigError("ssl.keystore.certificate.chain", f"must be set with {setting}")
    require_cryptography(setting)
    chain = settings.keystore_certificate_chain.encode()
    return _pem_key(setting, settings.keystore_key.encode(), chain, settings.key_password, new_password)


def _pem_key(
    setting: str, key: bytes, chain: bytes, password: str | None, new_password: Callable[[], bytes]
) -> KeyStore:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # optional

    found = _PRIVATE_KEY.search(key)
    if found is None:
        raise TlsConfigError(setting, "contains no private key in PEM")
    certificates = _pem_certificates("ssl.keystore.certificate.chain" if key is not chain else setting, chain)
    try:
        loaded = load_pem_private_key(found.group(), password.encode() if password else None)
    except TypeError:
        if password:
            raise TlsConfigError("ssl.key.password", "must not be set: the private key is not encrypted") from None
        raise TlsConfigError("ssl.key.password", "must be set: the private key is encrypted") from None
    except Exception:  # ValueError, UnsupportedAlgorithm
        why = "is wrong, or the private key is damaged" if password else "the private key is damaged"
        raise TlsConfigError("ssl.key.password" if password else setting, why) from None
    return _encrypted(loaded, tuple(certificates), new_password)


def _pem_certificates(setting: str, text: bytes) -> list[bytes]:
    import ssl  # costs a start without TLS 10 ms

    try:
        found = [ssl.PEM_cert_to_DER_cert(one.decode("ascii")) for one in _CERTIFICATES.findall(text)]
    except ValueError:
        raise TlsConfigError(setting, "contains a damaged certificate") from None
    if not found:
        raise TlsConfigError(setting, "contains no certificate in PEM")
    return found


# -- PKCS12 and JKS ----------------------------------------------------------------------------------------------------


def _jks_key(data: bytes, settings: TlsSettings, new_password: Callable[[], bytes]) -> KeyStore | None:
    from cryptography.hazmat.primitives.serialization import load_der_private_key  # optional

    store = _read_jks("ssl.keystore", data, settings.keystore_password)
    if not store.keys:
        return None
    first = store.keys[0]
    try:
        key = load_der_private_key(first.unprotect(settings.key_password or settings.keystore_password or ""), None)
    except JksError as error:
        raise TlsConfigError("ssl.key.password", str(error)) from None
    except Exception:
        raise TlsConfigError("ssl.keystore.location", "the private key is damaged") from None
    return _encrypted(key, first.chain, new_password)


def _read_jks(store: str, data: bytes, password: str | None) -> JksStore:
    try:
        return read_jks(data, password)
    except JksError as error:
        raise TlsConfigError(f"{store}.location", str(error)) from None


def _pkcs12_key(data: bytes, settings: TlsSettings, new_password: Callable[[], bytes]) -> KeyStore | None:
    store = _read_pkcs12("ssl.keystore", data, settings.keystore_password or "")
    if settings.key_password and settings.key_password != settings.keystore_password:
        raise TlsConfigError("ssl.key.password", "must be the same as ssl.keystore.password for PKCS12")
    if store.key is None or store.cert is None:
        return None
    chain = (_der(store.cert.certificate), *(_der(other.certificate) for other in store.additional_certs))
    return _encrypted(store.key, chain, new_password)


def _trusted_of_pkcs12(store: PKCS12KeyAndCertificates) -> list[bytes]:
    """Return what Java trusts: of a private key its own certificate, not its authorities, unless they are there twice.

    A store that contains an authority as trusted and in the chain of the key contains its certificate two times.
    """
    others = [other.certificate for other in store.additional_certs]
    if store.cert is None:
        return [_der(one) for one in others]
    last = store.cert.certificate
    while last.issuer != last.subject:
        issuer = next((one for one in others if one.subject == last.issuer), None)
        if issuer is None:
            break
        others.remove(issuer)
        last = issuer
    return [_der(one) for one in (store.cert.certificate, *others)]


def _read_pkcs12(store: str, data: bytes, password: str) -> PKCS12KeyAndCertificates:
    from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12  # optional

    try:
        return load_pkcs12(data, password.encode())
    except Exception:  # ValueError, UnsupportedAlgorithm
        rule = f"is no PKCS12 or JKS store, or {store}.password is wrong"
        raise TlsConfigError(f"{store}.location", rule) from None


def _encrypted(key: object, chain: tuple[bytes, ...], new_password: Callable[[], bytes]) -> KeyStore:
    from cryptography.hazmat.primitives import serialization  # optional

    password = new_password()
    pem = key.private_bytes(  # type: ignore[attr-defined]
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password),
    )
    return KeyStore(pem, password, chain)


def _der(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding  # optional

    return certificate.public_bytes(Encoding.DER)
