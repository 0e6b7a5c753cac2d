"""Which certificates may replace which on a running listener."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from security.tls.errors import TlsConfigError
from security.tls.identity import check_successor
from support.certificates import LOCAL, authority, other_authority

STRICT = {"may_change_subject": False, "may_lose_names": False}


def certificate(subject="CN=broker", sans=LOCAL, by=authority, **others):
    return by().issue(subject, sans=sans, **others).certificate.public_bytes(Encoding.DER)


OLD = certificate()
ONE_NAME = certificate(sans=("localhost",))


@pytest.mark.parametrize(
    "new",
    [
        certificate(),
        certificate(expired=True),
        certificate(by=other_authority),
        certificate(sans=(*LOCAL, "another.example")),
    ],
    ids=["new key", "expired", "another authority", "one name more"],
)
def test_successors(new):
    check_successor(OLD, new, **STRICT)


def test_another_subject_and_lost_names_are_refused_unless_they_are_allowed():
    other, nameless = certificate("CN=other"), certificate(sans=())
    with pytest.raises(TlsConfigError, match="must stay CN=broker, and is CN=other"):
        check_successor(OLD, other, **STRICT)
    check_successor(OLD, other, may_change_subject=True, may_lose_names=False)
    with pytest.raises(TlsConfigError, match="DNSName:localhost, IPAddress:127"):
        check_successor(OLD, nameless, **STRICT)
    check_successor(OLD, nameless, may_change_subject=False, may_lose_names=True)


def test_a_key_store_cannot_come_or_go():
    check_successor(None, None, **STRICT)
    for old, new in ((OLD, None), (None, OLD)):
        with pytest.raises(TlsConfigError):
            check_successor(old, new, **STRICT)


def odd_certificates():
    """A SAN of an unknown type, a damaged one, and a subject that is no subject."""
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")]).public_bytes()
    for damage in (b"\x83", b"\xa2"):  # x400Address; a DNS name with the bits of a constructed value
        yield ONE_NAME.replace(names, names[:2] + damage + names[3:])
    yield OLD.replace(b"\x0c\x06broker", b"\x0c\x7fbroker")


@pytest.mark.parametrize("odd", list(odd_certificates()))
def test_certificates_that_cannot_be_read_are_refused_old_or_new(odd):
    with pytest.raises(TlsConfigError, match=r"^ssl\.keystore\.location: the .* cannot be read"):
        check_successor(OLD, odd, **STRICT)
    with pytest.raises(TlsConfigError, match=r"only a restart can replace it: the .* cannot be read"):
        check_successor(odd, OLD, **STRICT)
