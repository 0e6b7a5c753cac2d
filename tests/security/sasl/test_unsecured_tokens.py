"""Tokens without a signature."""

from __future__ import annotations

import base64
import json

import pytest

from security.jaas import JaasError
from security.sasl.oauthbearer_server import BearerToken, InvalidTokenError
from security.sasl.unsecured_tokens import UnsecuredTokens

NOW_MS = 1_000_000_000


def section(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def token(claims: object, header: object = None, signature: str = "") -> str:
    return f"{section({'alg': 'none'} if header is None else header)}.{section(claims)}.{signature}"


def tokens(**options: str) -> UnsecuredTokens:
    return UnsecuredTokens(options, lambda: NOW_MS)


CLAIMS = {"sub": "alice", "exp": NOW_MS / 1000 + 60, "iat": NOW_MS / 1000, "scope": "read write", "name": "bob"}


def test_what_a_token_says() -> None:
    assert tokens().validate(token(CLAIMS)) == BearerToken("alice", NOW_MS + 60_000)
    assert tokens(unsecuredValidatorPrincipalClaimName="name").validate(token(CLAIMS)).user == "bob"
    assert tokens(unsecuredValidatorRequiredScope="read").validate(token(CLAIMS)).user == "alice"
    late = {**CLAIMS, "exp": NOW_MS / 1000 - 1}
    assert tokens(unsecuredValidatorAllowableClockSkewMs="2000").validate(token(late)).expires_ms == NOW_MS - 1000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a.b", "two sections"),
        ("a.b.", "not JSON in base64url"),
        (token(CLAIMS, signature="AAAA"), "empty signature"),
        (token(CLAIMS, {"alg": "RS256"}), "must be none"),
        (token([]), "not a JSON object"),
        (token({**CLAIMS, "exp": NOW_MS / 1000}), "expired"),
        (token({**CLAIMS, "iat": NOW_MS / 1000 + 1}), "in the future"),
        (token({**CLAIMS, "exp": None}), "'exp' is missing"),
        (token({**CLAIMS, "exp": True}), "'exp' must be a time"),
        (token({**CLAIMS, "exp": "tomorrow"}), "'exp' must be a time"),
        (token({**CLAIMS, "exp": 1e300}), "'exp' must be a time"),
        (token({**CLAIMS, "exp": float("nan")}), "'exp' must be a time"),
        (token({**CLAIMS, "sub": ""}), "'sub' must be a text"),
        (token({**CLAIMS, "sub": 5}), "'sub' must be a text"),
        (token({**CLAIMS, "sub": None}), "'sub' must be a text"),
    ],
)
def test_a_token_that_is_not_valid(text: str, reason: str) -> None:
    with pytest.raises(InvalidTokenError, match=reason):
        tokens().validate(text)


def test_a_token_without_the_required_scope() -> None:
    with pytest.raises(InvalidTokenError) as failed:
        tokens(unsecuredValidatorRequiredScope="admin read").validate(token(CLAIMS))
    assert (failed.value.status, failed.value.scope) == ("insufficient_scope", "admin read")
    with pytest.raises(InvalidTokenError, match="text or a list"):
        tokens().validate(token({**CLAIMS, "scope": 5}))


def test_a_scope_ends_at_a_blank_of_ascii() -> None:
    only_admin = tokens(unsecuredValidatorRequiredScope="admin")
    assert only_admin.validate(token({**CLAIMS, "scope": "read\tadmin"})).user == "alice"
    with pytest.raises(InvalidTokenError, match="lacks the scope"):
        only_admin.validate(token({**CLAIMS, "scope": "admin\u00a0of-nothing"}))


def test_an_option_that_is_no_number_is_refused() -> None:
    with pytest.raises(JaasError, match="AllowableClockSkewMs must be a number"):
        tokens(unsecuredValidatorAllowableClockSkewMs="abc")


@pytest.mark.parametrize("blank", ["\u00a0", "\u2003", "\u0085", "\u3000", "\ufeff"])
def test_a_user_with_a_blank_beyond_ascii_is_another_user(blank: str) -> None:
    """Java's trim keeps these characters: a token for another name must not log in as admin."""
    assert tokens().validate(token({**CLAIMS, "sub": f"{blank}admin{blank}"})).user == f"{blank}admin{blank}"
    assert tokens().validate(token({**CLAIMS, "sub": blank})).user == blank


def test_blanks_and_control_characters_around_a_user_are_cut_off() -> None:
    assert tokens().validate(token({**CLAIMS, "sub": "\x00\t ali ce\x1f \r\n"})).user == "ali ce"
    with pytest.raises(InvalidTokenError, match="'sub' must be a text"):
        tokens().validate(token({**CLAIMS, "sub": " \x00\x1c\t"}))
