"""Passwords as Kafka stores them in ZooKeeper."""

import json
import re

import pytest

from security.password_encoder import MAX_ITERATIONS, PasswordEncoder, PasswordError
from support.reference import REFERENCE


def recorded():
    """A store's password that Kafka has written with the secret encoder-secret."""
    for line in (REFERENCE / "security" / "tls.jsonl").read_text().splitlines():
        for znode in json.loads(line).get("znodes", []):
            if text := znode["value"]["config"].get("listener.name.ssl.ssl.keystore.password"):
                return text
    raise AssertionError


def test_kafkas_own_password_is_read():
    assert PasswordEncoder("encoder-secret").decode(recorded()) == "secret"


def test_the_form_is_kafkas():
    ours = PasswordEncoder("encoder-secret").encode("secret")
    assert PasswordEncoder("encoder-secret").decode(ours) == "secret"

    def shape(text):
        return [(name, len(value)) for name, _, value in (field.partition(":") for field in text.split(","))]

    assert shape(ours) == shape(recorded())
    assert ours != PasswordEncoder("encoder-secret").encode("secret")


@pytest.mark.parametrize("password", ["", "x" * 15, "x" * 16, "grün:,=", "p" * 5000])
@pytest.mark.parametrize("bits", [128, 256])
def test_any_password_comes_back(password, bits):
    encoder = PasswordEncoder("s", key_factory="PBKDF2WithHmacSHA256", key_bits=bits, iterations=1024)
    assert encoder.decode(encoder.encode(password)) == password


def test_another_secret_and_damage_are_reported_without_the_password():
    text = recorded()
    for encoder, damaged in (
        (PasswordEncoder("other"), text),
        (PasswordEncoder("encoder-secret"), text[:-10]),
        (PasswordEncoder("encoder-secret"), "secret"),
        (PasswordEncoder("encoder-secret"), ""),
        (PasswordEncoder("encoder-secret"), text.replace("SHA512", "FOO")),
        (PasswordEncoder("encoder-secret"), text.replace("AES/CBC/PKCS5Padding", "AES/GCM/NoPadding")),
    ):
        with pytest.raises(PasswordError):
            encoder.decode(damaged)


@pytest.mark.parametrize("field", ["iterations", "keyLength"])
@pytest.mark.parametrize("value", ["0", "-1", "1000001", "9" * 12, "9" * 100, "9" * 5000])
def test_numbers_that_no_password_has_are_refused_before_a_key_is_derived(field, value, monkeypatch):
    def derive(_name, _secret, _salt, iterations, _length):
        assert iterations < 1, "this takes long"
        raise ValueError("iteration value must be greater than 0.")

    monkeypatch.setattr("security.password_encoder.hashlib.pbkdf2_hmac", derive)
    text = re.sub(rf"{field}:[0-9]+", f"{field}:{value}", recorded())
    with pytest.raises(PasswordError):
        PasswordEncoder("encoder-secret").decode(text)


def test_too_many_iterations_are_refused_with_their_bound():
    encoder = PasswordEncoder("s", iterations=MAX_ITERATIONS + 1)
    with pytest.raises(PasswordError, match=str(MAX_ITERATIONS)):
        encoder.encode("secret")
