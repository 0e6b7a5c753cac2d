"""Unsecured tokens of OAUTHBEARER: Kafka's options for development."""

import base64
import json

import pytest

from security.sasl.errors import SaslError
from security.sasl.unsecured_login import unsecured_extensions, unsecured_token


def claims(options):
    header, payload, signature = unsecured_token(options, 1000.0).split(".")
    parts = [json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))) for part in (header, payload)]
    assert parts[0] == {"alg": "none"}
    assert signature == ""
    return parts[1]


def test_claims():
    options = {
        "unsecuredLoginStringClaim_sub": "alice",
        "unsecuredLoginNumberClaim_level": "3",
        "unsecuredLoginListClaim_scope": "|read|write",
        "unsecuredLoginExtension_traceId": "7",
    }
    assert claims(options) == {"iat": 1000, "exp": 4600, "sub": "alice", "level": 3, "scope": ["read", "write"]}
    assert unsecured_extensions(options) == {"traceId": "7"}


def test_the_lifetime():
    assert claims({"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": "60"})["exp"] == 1060


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "unsecuredLoginStringClaim_sub"),
        (
            {"unsecuredLoginStringClaim_sub": "a", "unsecuredLoginLifetimeSeconds": "abc"},
            "unsecuredLoginLifetimeSeconds",
        ),
        ({"unsecuredLoginPrincipalClaimName": "user"}, "unsecuredLoginStringClaim_user"),
    ],
)
def test_a_wrong_option_is_named(options, named):
    with pytest.raises(SaslError, match=named):
        unsecured_token(options, 0.0)
