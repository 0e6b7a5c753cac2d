"""Hashes of passwords and tokens: their format, its bounds, and vectors of RFC 7914."""

import hashlib

import pytest

from security.password_hash import HashFormatError, ScryptHash, parse_token_digest, token_digest

QUICK = {"log2_n": 10, "r": 1, "p": 1}


def test_a_vector_of_rfc_7914():
    key = bytes.fromhex(
        "7023bdcb3afd7348461c06cd81fd38ebfda8fbba904f8e3ea9b543f6545da1f2"
        "d5432955613f0fcf62d49705242a9af9e61e85dc0d651e40dfcf017b45575887"
    )
    assert ScryptHash(14, 8, 1, b"SodiumChloride", key).verifies("pleaseletmein")


def test_text_and_back():
    made = ScryptHash.of_password("pencil", salt=b"0123456789abcdef", **QUICK)
    text = str(made)
    assert text.startswith("$scrypt$ln=10,r=1,p=1$MDEyMzQ1Njc4OWFiY2RlZg$")
    assert ScryptHash.parse(text) == made
    assert made.verifies("pencil")
    assert not made.verifies("pencil ")
    assert not made.verifies("")


def test_every_hash_has_a_salt_of_its_own_and_repr_hides_the_key():
    one, other = (ScryptHash.of_password("pencil", **QUICK) for _ in range(2))
    assert one != other
    assert str(one).rpartition("$")[2] not in repr(one)
    assert repr(one.key) not in repr(one)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must be"),
        ("pencil", "must be"),
        ("$2y$05$abcdefghijklmnopqrstuu", "must be"),
        ("$scrypt$ln=14,r=8,p=5$c2FsdHNhbHQ$" + "A" * 43 + "\n", "must be"),
        ("$scrypt$ln=9,r=8,p=1$c2FsdHNhbHQ$" + "A" * 43, "from 10 to 20"),
        ("$scrypt$ln=14,r=0,p=1$c2FsdHNhbHQ$" + "A" * 43, "at least 1"),
        ("$scrypt$ln=20,r=8,p=1$c2FsdHNhbHQ$" + "A" * 43, "64 MiB"),
        ("$scrypt$ln=14,r=8,p=99$c2FsdHNhbHQ$" + "A" * 43, "2**21"),
        ("$scrypt$ln=14,r=8,p=5$c2FsdHNhb$" + "A" * 43, "base64"),
    ],
)
def test_what_is_no_hash_of_a_password(text, said):
    with pytest.raises(HashFormatError) as caught:
        ScryptHash.parse(text)
    assert said in str(caught.value)
    assert not text or text not in str(caught.value)


def test_the_largest_parameters_work():
    made = ScryptHash.of_password("pencil", log2_n=16, r=8, p=1)
    assert ScryptHash.parse(str(made)).verifies("pencil")


def test_digests_of_tokens():
    digits = hashlib.sha256(b"token").hexdigest()
    assert parse_token_digest(f"$sha256${digits}") == token_digest("token")
    assert parse_token_digest(f"$sha256${digits.upper()}") == token_digest("token")
    for text in (digits, "$sha256$00", f"$sha256${digits}0", f"$sha1${digits}"):
        with pytest.raises(HashFormatError):
            parse_token_digest(text)
