"""A development authority, and certificates of brokers and clients: `ottla certificates init`.

Keys are of the curve P-256, which every client of Kafka can use. A certificate has one purpose: that of a client is not
accepted as a broker's.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from security.tls.stores import require_cryptography

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A private key and its certificates, as PEM text."""

    key: str
    chain: str

    def __repr__(self) -> str:
        return "KeyPair()"


class DevelopmentAuthority:
    """An authority with a new key. Raises TlsConfigError if cryptography is not installed."""

    def __init__(self, days: int, now: datetime.datetime) -> None:
        """days: how long the certificates are valid, from `now` on."""
        require_cryptography("ssl.keystore.location")
        from cryptography.hazmat.primitives.asymmetric import ec  # optional

        self._days = days
        self._now = now
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._certificate = self._sign("Ottla development CA", self._key, None, ())

    @property
    def pair(self) -> KeyPair:
        """The authority's own key and certificate."""
        return KeyPair(_pem_key(self._key), _pem(self._certificate))

    def broker(self, hosts: Sequence[str]) -> KeyPair:
        """Return the certificate of a broker with these names and addresses."""
        return self._issue("broker", hosts)

    def client(self, name: str) -> KeyPair:
        """Return the certificate of a client: its user is User:CN=<name>."""
        return self._issue(name, ())

    def _issue(self, name: str, hosts: Sequence[str]) -> KeyPair:
        from cryptography.hazmat.primitives.asymmetric import ec  # optional

        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._sign(name, key, self._certificate, hosts)
        return KeyPair(_pem_key(key), _pem(certificate) + _pem(self._certificate))

    def _sign(
        self, name: str, key: EllipticCurvePrivateKey, issuer: x509.Certificate | None, hosts: Sequence[str]
    ) -> x509.Certificate:
        """Return a certificate for a key. issuer: None for the authority's own."""
        from cryptography import x509  # optional
        from cryptography.hazmat.primitives import hashes
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        public = key.public_key()
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject if issuer is None else issuer.subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - datetime.timedelta(hours=1))  # clocks differ
            .not_valid_after(self._now + datetime.timedelta(days=self._days))
            .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if issuer is not None:
            purpose = ExtendedKeyUsageOID.SERVER_AUTH if hosts else ExtendedKeyUsageOID.CLIENT_AUTH
            builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        builder = builder.add_extension(_key_usage(is_authority=issuer is None), critical=True)
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    from cryptography import x509  # optional

    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509  # optional

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding  # optional

    return certificate.public_bytes(Encoding.PEM).decode()


def _pem_key(key: EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives import serialization  # optional

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
