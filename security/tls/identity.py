"""What must stay the same when a listener gets a new certificate: Kafka's rules for a new key store (KIP-226, KIP-978).

A wrong file would cut off clients that verify the host name, or that know the broker by its subject.
"""

from __future__ import annotations

from dataclasses import dataclass

from security.tls.distinguished_name import NameFormatError, subject_of
from security.tls.errors import TlsConfigError

SETTING = "ssl.keystore.location"


@dataclass(frozen=True, slots=True)
class CertificateIdentity:
    """The subject of a certificate, and its alternative names."""

    subject: str
    names: frozenset[str]

    @classmethod
    def of(cls, certificate: bytes) -> CertificateIdentity:
        """Read a certificate (DER). Raises TlsConfigError for a name that cannot be read, in it or in an extension."""
        from cryptography import x509  # optional

        try:
            extensions = x509.load_der_x509_certificate(certificate).extensions
            found = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            names = frozenset(f"{type(name).__name__}:{name.value}" for name in found)
        except x509.ExtensionNotFound:
            names = frozenset()
        except (ValueError, x509.UnsupportedGeneralNameType, x509.DuplicateExtension):
            raise TlsConfigError(SETTING, "the alternative names of a certificate cannot be read") from None
        try:
            return cls(subject_of(certificate), names)
        except NameFormatError as error:
            raise TlsConfigError(SETTING, str(error)) from None


def check_successor(old: bytes | None, new: bytes | None, *, may_change_subject: bool, may_lose_names: bool) -> None:
    """Raise TlsConfigError if the certificate `new` (DER) may not replace `old` on a running listener."""
    if old is None or new is None:
        if old is not new:
            raise TlsConfigError(SETTING, "a listener that runs can neither get its first key store nor lose it")
        return
    try:
        before = CertificateIdentity.of(old)
    except TlsConfigError as error:
        rule = f"the certificate in use cannot be compared, so only a restart can replace it: {error.rule}"
        raise TlsConfigError(SETTING, rule) from None
    after = CertificateIdentity.of(new)
    if before.subject != after.subject and not may_change_subject:
        rule = f"the subject must stay {before.subject}, and is {after.subject} (ssl.allow.dn.changes)"
        raise TlsConfigError(SETTING, rule)
    lost = before.names - after.names
    if lost and not may_lose_names:
        rule = f"the certificate must keep its alternative names: {', '.join(sorted(lost))} (ssl.allow.san.changes)"
        raise TlsConfigError(SETTING, rule)
