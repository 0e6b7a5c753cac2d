"""Subjects of certificates as text: the expected texts are those of Java's X500Principal for the same bytes."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID as Name

from security.tls.distinguished_name import NameFormatError, subject_of
from support.certificates import authority, client_certificate


def name(*parts):
    """Parts are (type, text), or a list of those for one part with several attributes."""
    parts = [part if isinstance(part, list) else [part] for part in parts]
    return x509.Name([x509.RelativeDistinguishedName([x509.NameAttribute(*one) for one in part]) for part in parts])


def cn(text, *kind):
    return name((Name.COMMON_NAME, text, *kind))


CASES = {
    r"CN=kafka.Client.EXAMPLE,OU=Dev\+Ops,O=My\, Org \"x\",ST=Berlin,C=DE": name(
        (Name.COUNTRY_NAME, "DE"),
        (Name.STATE_OR_PROVINCE_NAME, "Berlin"),
        (Name.ORGANIZATION_NAME, 'My, Org "x"'),
        (Name.ORGANIZATIONAL_UNIT_NAME, "Dev+Ops"),
        (Name.COMMON_NAME, "kafka.Client.EXAMPLE"),
    ),
    r"CN=a\=b\#c\<d\>e\;f\\g": cn("a=b#c<d>e;f\\g"),
    r"CN=\ \ two\ \ ": cn("  two  "),
    r"CN=\ \ \ ": cn("   "),
    "CN=\\\ra\\\r": cn("\ra\r"),
    "CN=tab\there\nnl": cn("tab\there\nnl"),
    r"CN=nul\00x": cn("nul\0x"),
    "CN=Jürgen 漢字 😀": cn("Jürgen 漢字 😀"),
    "CN=Jürgen": cn("Jürgen", _ASN1Type.T61String),
    "CN=\\00J\\00�": cn("Jü", _ASN1Type.BMPString),
    "CN=#1c0400000078": cn("x", _ASN1Type.UniversalString),
    "CN=x,1.2.840.113549.1.9.1=#16056140622e63": name((Name.EMAIL_ADDRESS, "a@b.c"), (Name.COMMON_NAME, "x")),
    "2.5.4.42=#0c03416461,2.5.4.5=#1303313233": name((Name.SERIAL_NUMBER, "123"), (Name.GIVEN_NAME, "Ada")),
    "STREET=Weg 1,UID=ada,DC=example,DC=org": name(
        (Name.DOMAIN_COMPONENT, "org"),
        (Name.DOMAIN_COMPONENT, "example"),
        (Name.USER_ID, "ada"),
        (Name.STREET_ADDRESS, "Weg 1"),
    ),
    "L=here,OU=b+CN=multi": name(
        [(Name.ORGANIZATIONAL_UNIT_NAME, "b"), (Name.COMMON_NAME, "multi")], (Name.LOCALITY_NAME, "here")
    ),
    "": x509.Name([]),
}


@pytest.mark.parametrize(("text", "subject"), CASES.items(), ids=[repr(text) for text in CASES])
def test_subjects_are_written_like_java(text, subject):
    assert subject_of(authority().issue(subject).certificate.public_bytes(Encoding.DER)) == text


def test_any_damage_is_an_error_of_this_module_or_another_name():
    whole = client_certificate().certificate.public_bytes(Encoding.DER)
    assert subject_of(whole) == "CN=client"
    refused = 0
    for at in range(len(whole)):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]):
            try:
                subject_of(damaged)
            except NameFormatError:
                refused += 1
    assert refused > 50
