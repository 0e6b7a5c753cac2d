"""Authorities and certificates for tests: made in memory, written where a test needs them.

    authority = Authority("CN=test CA")
    server = authority.issue("CN=broker,O=Ottla", sans=("localhost", "127.0.0.1"))
    server.write(tmp_path / "server.pem")       # key and chain in one file: ssl.keystore.type=PEM
    authority.write(tmp_path / "ca.pem")        # ssl.truststore.type=PEM

Keys are of elliptic curves unless a test asks for RSA, which takes 100 times as long.
"""

import base64
import datetime
import functools
import hashlib
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

DAY = datetime.timedelta(days=1)
LOCAL = ("localhost", "127.0.0.1", "::1")
"""The names of a server in a test."""
SIGNS = x509.KeyUsage(
    **dict.fromkeys(("key_cert_sign", "crl_sign"), True),
    **dict.fromkeys(("digital_signature", "content_commitment", "key_encipherment", "data_encipherment"), False),
    **dict.fromkeys(("key_agreement", "encipher_only", "decipher_only"), False),
)
"""What an authority's key is for."""


@functools.cache
def rsa_key():
    """One RSA key for all tests of a process."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def new_key(key_type="ec"):
    return rsa_key() if key_type == "rsa" else ec.generate_private_key(ec.SECP256R1())


@dataclass
class Issued:
    """A private key and its certificates; `chain` begins with the key's own."""

    key: object
    chain: list[x509.Certificate]

    @property
    def certificate(self):
        return self.chain[0]

    @property
    def serial(self):
        return self.certificate.serial_number

    @property
    def key_hash(self):
        """The SHA-256 of the public key, as Base64: browsers name certificates by it."""
        key = self.certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return base64.b64encode(hashlib.sha256(key).digest()).decode()

    def key_pem(self, password=None):
        encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def chain_pem(self):
        return "".join(one.public_bytes(Encoding.PEM).decode() for one in self.chain)

    def pkcs12(self, password="secret", name=b"kafka"):
        encryption = BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(name, self.key, self.certificate, self.chain[1:], encryption)

    def write(self, path: Path, password=None):
        """Write a file for the type of its name: .p12 (the password defaults to secret), or key and chain as PEM."""
        if path.suffix == ".p12":
            path.write_bytes(self.pkcs12(password or "secret"))
        else:
            path.write_text(self.key_pem(password) + self.chain_pem())
        return path


class Authority:
    """An authority that signs certificates.

    is_strict: they have all that RFC 5280 demands, as create_default_context() of Python 3.13 does.
    """

    def __init__(self, subject="CN=test CA", key_type="ec", *, is_strict=True):
        self.is_strict = is_strict
        self.key = new_key(key_type)
        self.name = x509.Name.from_rfc4514_string(subject)
        builder = _certificate(self.name, self.name, self.key.public_key(), -DAY, 3650 * DAY)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        if is_strict:
            identifier = x509.SubjectKeyIdentifier.from_public_key(self.key.public_key())
            builder = builder.add_extension(identifier, critical=False).add_extension(SIGNS, critical=True)
        self.certificate = builder.sign(self.key, hashes.SHA256())

    def issue(self, subject="CN=broker", *, sans=(), key_type="ec", expired=False, future=False, usage=None, key=None):
        """A certificate. subject: as in RFC 4514, or a Name. usage: "server" or "client" only. key: one that exists."""
        name = subject if isinstance(subject, x509.Name) else x509.Name.from_rfc4514_string(subject)
        key = key or new_key(key_type)
        begin, end = (-20 * DAY, -DAY) if expired else (DAY, 20 * DAY) if future else (-DAY, 365 * DAY)
        builder = _certificate(name, self.name, key.public_key(), begin, end)
        if sans:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general_name(one) for one in sans]), False)
        if usage is not None:
            purpose = ExtendedKeyUsageOID.SERVER_AUTH if usage == "server" else ExtendedKeyUsageOID.CLIENT_AUTH
            builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), False)
        if self.is_strict:
            identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
            builder = builder.add_extension(identifier, critical=False)
        return Issued(key, [builder.sign(self.key, hashes.SHA256()), self.certificate])

    def pem(self):
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def pkcs12(self, password="secret"):
        trusted = [pkcs12.PKCS12Certificate(self.certificate, b"ca")]
        return pkcs12.serialize_java_truststore(trusted, BestAvailableEncryption(password.encode()))

    def write(self, path: Path, password="secret"):
        """Write the authority's certificate as a trust store: .p12, or PEM."""
        if path.suffix == ".p12":
            path.write_bytes(self.pkcs12(password))
        else:
            path.write_text(self.pem())
        return path


def _certificate(subject, issuer, public_key, begin, end):
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begin)
        .not_valid_after(now + end)
    )


def _general_name(text):
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


@functools.cache
def authority():
    """The authority that the tests of a process share."""
    return Authority()


@functools.cache
def other_authority():
    """An authority that nobody trusts."""
    return Authority("CN=another CA")


@functools.cache
def server_certificate():
    """A broker's certificate for this machine."""
    return authority().issue("CN=broker,O=Ottla,C=DE", sans=LOCAL)


@functools.cache
def client_certificate():
    return authority().issue("CN=client")
