"""Tokens with a signature: those recorded from Apache Kafka 3.9, and forged ones."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey, RSAKey

from security.sasl.oauthbearer_server import InvalidTokenError
from security.sasl.signed_tokens import SignedTokens, TokenRules
from support.reference import REFERENCE

NOW_MS = 1_795_360_790_000
RULES = TokenRules(("kafka", "other"), "https://issuer.example")
JWKS = json.loads((REFERENCE / "security" / "jwks.json").read_text())


def recorded_tokens() -> list[Any]:
    found = []
    for line in (REFERENCE / "security" / "sasl.jsonl").read_text().splitlines():
        case = json.loads(line)
        if not case["scenario"].startswith("oauth JWKS"):
            continue
        frames = [frame for frame in case["frames"] if frame.get("api_name") == "SaslAuthenticate"]
        sent = base64.b64decode(frames[0]["decoded"]["authBytes"])
        token = sent.partition(b"Bearer ")[2].partition(b"\x01")[0].decode()
        is_valid = frames[1]["decoded"]["authBytes"] == ""
        found.append(pytest.param(token, is_valid, id=case["scenario"]))
    return found


def validator(keys: Any = JWKS, **options: Any) -> SignedTokens:
    tokens = SignedTokens(RULES, lambda: NOW_MS, **options)
    tokens.set_keys(keys)
    return tokens


@pytest.mark.parametrize(("token", "is_valid"), recorded_tokens())
def test_recorded_tokens_are_judged_as_by_kafka(token: str, is_valid: bool) -> None:
    if is_valid:
        assert validator().validate(token).user == "alice"
        return
    with pytest.raises(InvalidTokenError):
        validator().validate(token)


RSA_KEY = RSAKey.import_key(rsa.generate_private_key(65537, 2048), {"kid": "r"})
EC_KEY = ECKey.import_key(ec.generate_private_key(ec.SECP256R1()), {"kid": "e"})
OTHER_KEY = RSAKey.import_key(rsa.generate_private_key(65537, 2048), {"kid": "r"})
OWN = {"keys": [RSA_KEY.as_dict(private=False), EC_KEY.as_dict(private=False)]}
CLAIMS = {
    "sub": "alice",
    "iat": NOW_MS // 1000,
    "exp": NOW_MS // 1000 + 60,
    "aud": "kafka",
    "iss": "https://issuer.example",
}


def encoded(section: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(section).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("header", "key"),
    [({"alg": "RS256", "kid": "r"}, RSA_KEY), ({"alg": "PS512"}, RSA_KEY), ({"alg": "ES256"}, EC_KEY)],
)
def test_own_tokens(header: dict[str, str], key: Any) -> None:
    token = jwt.encode(header, CLAIMS, key, algorithms=[header["alg"]])
    assert validator(OWN).validate(token) == ("alice", NOW_MS + 60_000)


def forged_with_the_public_key() -> str:
    """The key of the HMAC is the published key: an old attack on libraries that trust `alg`."""
    unsigned = f"{encoded({'alg': 'HS256', 'kid': 'r'})}.{encoded(CLAIMS)}"
    mac = hmac.digest(RSA_KEY.as_pem(private=False), unsigned.encode(), hashlib.sha256)
    return f"{unsigned}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def with_own_key_in_the_header() -> str:
    header = {"alg": "RS256", "jwk": OTHER_KEY.as_dict(private=False)}
    return jwt.encode(header, CLAIMS, OTHER_KEY, algorithms=["RS256"])


def stripped() -> str:
    return jwt.encode({"alg": "RS256", "kid": "r"}, CLAIMS, RSA_KEY).rpartition(".")[0] + "."


def changed() -> str:
    head, _, signature = jwt.encode({"alg": "RS256", "kid": "r"}, CLAIMS, RSA_KEY).split(".")
    return f"{head}.{encoded({**CLAIMS, 'sub': 'admin'})}.{signature}"


@pytest.mark.parametrize(
    "token",
    [
        pytest.param(f"{encoded({'alg': 'none'})}.{encoded(CLAIMS)}.", id="alg none"),
        pytest.param(f"{encoded({'alg': 'None'})}.{encoded(CLAIMS)}.", id="alg None"),
        pytest.param(f"{encoded({'alg': ['none']})}.{encoded(CLAIMS)}.", id="alg list"),
        pytest.param(jwt.encode({"alg": "RS256", "kid": "r"}, CLAIMS, OTHER_KEY), id="wrong key"),
        pytest.param(jwt.encode({"alg": "RS256"}, CLAIMS, OTHER_KEY), id="wrong key without kid"),
        pytest.param(with_own_key_in_the_header(), id="key in the header"),
        pytest.param(forged_with_the_public_key(), id="public key as secret"),
        pytest.param(
            jwt.encode({"alg": "HS256"}, CLAIMS, OctKey.import_key("secretsecretsecretsecretsecret12")), id="HS256"
        ),
        pytest.param(stripped(), id="signature stripped"),
        pytest.param(changed(), id="claims changed"),
        pytest.param(jwt.encode({"alg": "RS256"}, {**CLAIMS, "aud": "zz"}, RSA_KEY), id="wrong audience"),
        pytest.param(jwt.encode({"alg": "RS256"}, {**CLAIMS, "aud": [5, None]}, RSA_KEY), id="strange audience"),
        pytest.param(jwt.encode({"alg": "RS256"}, {**CLAIMS, "exp": NOW_MS // 1000 - 30}, RSA_KEY), id="expired"),
    ],
)
def test_a_forged_token_is_refused(token: str) -> None:
    with pytest.raises(InvalidTokenError) as refused:
        validator(OWN).validate(token)
    assert token not in str(refused.value)


def test_an_unknown_key_is_reported() -> None:
    reported: list[str] = []
    tokens = validator(OWN, on_unknown_key=lambda: reported.append("unknown"))
    with pytest.raises(InvalidTokenError, match="no key has the id"):
        tokens.validate(jwt.encode({"alg": "RS256", "kid": "new"}, CLAIMS, OTHER_KEY))
    assert reported == ["unknown"]
    tokens.set_keys({"keys": [{**OTHER_KEY.as_dict(private=False), "kid": "new"}]})
    assert tokens.validate(jwt.encode({"alg": "RS256", "kid": "new"}, CLAIMS, OTHER_KEY)).user == "alice"


@pytest.mark.parametrize("keys", [None, [], {}, {"keys": 5}, {"keys": [{"kty": "RSA"}]}, {"keys": [5]}])
def test_a_key_set_that_cannot_be_read_is_refused(keys: Any) -> None:
    with pytest.raises(ValueError, match="JSON Web Key Set"):
        validator(keys)
