"""The settings of SASL listeners, seen in a live broker."""

from __future__ import annotations

import base64
import contextlib
import hmac
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec
from joserfc import jwt
from joserfc.jwk import ECKey

from broker.broker import Broker
from broker.errors import BrokerStartError
from broker.settings.config import BrokerConfig
from protocol.error_codes import ErrorCode
from protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from security.principal import Principal
from storage.setting import ConfigError
from support.broker import settings
from support.effects import shows
from support.kerberos import HOST, kerberos_login, running_realm
from support.polling import until
from support.sasl import PLAIN_JAAS, gssapi, listener_settings, sasl_listeners, signed, unsecured
from support.wire import ConnectionClosedError, WireClient, wire_client

NOW_MS = 1_800_000_000_000
PLAIN = listener_settings("SASL", "PLAIN")
JAAS = "listener.name.sasl.plain.sasl.jaas.config"
KEY = ECKey.import_key(ec.generate_private_key(ec.SECP256R1()), {"kid": "one"})
NEW_KEY = ECKey.import_key(ec.generate_private_key(ec.SECP256R1()), {"kid": "two"})


@contextlib.asynccontextmanager
async def sasl_broker(tmp_path: Path, *values: dict[str, str]) -> AsyncIterator[Broker]:
    merged = settings(tmp_path / "data") | sasl_listeners("SASL") | {"connection.failed.authentication.delay.ms": "0"}
    for one in values:
        merged |= one
    async with Broker(BrokerConfig.load(None, merged), now_ms=lambda: NOW_MS) as broker:
        yield broker


def connect(broker: Broker) -> contextlib.AbstractAsyncContextManager[WireClient]:
    return wire_client(f"127.0.0.1:{broker.acceptors['SASL'].port}")


async def log_in(broker: Broker, message: bytes, mechanism: str = "PLAIN") -> Any:
    """The answer to a first message."""
    async with connect(broker) as client:
        assert (await client.call(SaslHandshakeRequest(mechanism=mechanism), 1)).error_code == 0
        return await client.call(SaslAuthenticateRequest(auth_bytes=message), 2)


def users(broker: Broker) -> set[Principal]:
    return {connection.principal for connection in broker.acceptors["SASL"].connections}


async def alice_logs_in(broker: Broker) -> bool:
    return bool((await log_in(broker, b"\0alice\0alice-secret")).error_code == 0)


@shows("sasl.enabled.mechanisms")
async def test_only_enabled_mechanisms_are_offered(tmp_path: Path) -> None:
    enabled = {"listener.name.sasl.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN"}
    both = listener_settings("SASL", "PLAIN", "SCRAM-SHA-512")
    async with sasl_broker(tmp_path, both, enabled) as broker, connect(broker) as client:
        answer = await client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
        assert (answer.error_code, answer.mechanisms) == (
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            ["PLAIN", "SCRAM-SHA-512"],
        )
        assert await client.is_closed()


@shows("sasl.jaas.config")
async def test_the_users_of_plain_are_in_the_jaas_line(tmp_path: Path) -> None:
    async with sasl_broker(tmp_path, PLAIN, {JAAS: PLAIN_JAAS.replace("alice-secret", "other")}) as broker:
        assert not await alice_logs_in(broker)
        assert (await log_in(broker, b"\0alice\0other")).error_code == 0


@shows("sasl.server.max.receive.size")
async def test_frames_are_small_until_the_client_is_authenticated(tmp_path: Path) -> None:
    async with sasl_broker(tmp_path, PLAIN, {"sasl.server.max.receive.size": "100"}) as broker:
        async with connect(broker) as client:
            client.send_raw((101).to_bytes(4, "big"))
            assert await client.is_closed()
        async with connect(broker) as client:
            await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            await client.call(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2)
            assert (await client.call(MetadataRequest(topics=[]), 9, client_id="x" * 200)).brokers


@shows("connections.max.reauth.ms")
async def test_a_session_ends(tmp_path: Path) -> None:
    async with (
        sasl_broker(tmp_path, PLAIN, {"connections.max.reauth.ms": "50000"}) as broker,
        connect(broker) as client,
    ):
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        answer = await client.call(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2)
        assert answer.session_lifetime_ms == 50_000
        await client.call(MetadataRequest(topics=[]), 1)
        acceptor = broker.acceptors["SASL"]
        now_s = acceptor.now_s
        acceptor.now_s = lambda: now_s() + 50
        with pytest.raises(ConnectionClosedError):
            await client.call(MetadataRequest(topics=[]), 1)


@shows("connection.failed.authentication.delay.ms")
async def test_a_failure_is_held_back_and_others_are_served_meanwhile(tmp_path: Path) -> None:
    held = {"connection.failed.authentication.delay.ms": "3600000", "connections.max.idle.ms": "-1"}
    async with sasl_broker(tmp_path, PLAIN, held) as broker, connect(broker) as client:
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0x"), 2)
        client.send(MetadataRequest(topics=[]), 1)
        (held_back,) = list(broker.acceptors["SASL"].connections)

        async def is_waiting() -> bool:
            return held_back.is_busy

        await until(is_waiting, "the failure is held back")
        assert await alice_logs_in(broker)
        assert held_back.is_busy


@shows("sasl.kerberos.service.name")
async def test_kerberos_needs_the_name_of_the_service(tmp_path: Path) -> None:
    kerberos = gssapi("SASL", tmp_path / "keytab", "kafka/localhost") | {"sasl.kerberos.service.name": ""}
    with pytest.raises(ConfigError, match="must be set because GSSAPI is enabled"):
        BrokerConfig.load(None, settings(tmp_path / "data") | sasl_listeners("SASL") | kerberos)


@shows("sasl.kerberos.principal.to.local.rules")
async def test_rules_decide_which_user_a_principal_is(tmp_path: Path) -> None:
    with running_realm(tmp_path) as realm:
        keytab = realm.keytab(f"kafka/{HOST}", "web/one", "nobody")
        rules = {"sasl.kerberos.principal.to.local.rules": "RULE:[2:$1-$2](web-.*)s/-/./U"}
        async with sasl_broker(tmp_path, gssapi("SASL", keytab, f"kafka/{HOST}"), rules) as broker:
            async with connect(broker) as client:
                assert await kerberos_login(client, keytab, "web/one") == 0
                assert users(broker) == {Principal("User", "WEB.ONE")}
            async with connect(broker) as client:
                assert await kerberos_login(client, keytab, "nobody") == ErrorCode.SASL_AUTHENTICATION_FAILED


@shows("sasl.server.callback.handler.class")
async def test_unsigned_tokens_must_be_asked_for_by_name(tmp_path: Path) -> None:
    oauth = listener_settings("SASL", "OAUTHBEARER")
    async with sasl_broker(tmp_path, oauth, unsecured("SASL")) as broker:
        header = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
        body = base64.urlsafe_b64encode(json.dumps({"sub": "a", "exp": NOW_MS // 1000 + 9}).encode()).decode()
        answer = await bearer(broker, f"{header}.{body.rstrip('=')}.")
        assert (answer.error_code, answer.session_lifetime_ms) == (0, 9000)


async def bearer(broker: Broker, token: str) -> Any:
    return await log_in(broker, f"n,,\x01auth=Bearer {token}\x01\x01".encode(), "OAUTHBEARER")


async def is_valid(broker: Broker, key: Any = KEY, **claims: Any) -> bool:
    """Whether the broker accepts a token of a key with these claims."""
    body = {"sub": "alice", "iat": NOW_MS // 1000, "exp": NOW_MS // 1000 + 60, "aud": "kafka", "iss": "us"} | claims
    token = jwt.encode({"alg": "ES256", "kid": key.kid}, body, key)
    return bool((await bearer(broker, token)).auth_bytes == b"")


def key_set(*keys: Any) -> str:
    return json.dumps({"keys": [key.as_dict(private=False) for key in keys]})


@shows(
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.clock.skew.seconds",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.scope.claim.name",
)
async def test_what_a_signed_token_must_say(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(key_set(KEY))
    rules = {"expected_audience": "kafka", "expected_issuer": "us", "clock_skew_seconds": "10"}
    names = {"sub_claim_name": "user", "scope_claim_name": "may"}
    oauth = listener_settings("SASL", "OAUTHBEARER")
    async with sasl_broker(tmp_path, oauth, signed("SASL", file, **rules, **names)) as broker:
        assert await is_valid(broker, user="alice")
        assert not await is_valid(broker)
        assert not await is_valid(broker, NEW_KEY, user="alice")
        assert not await is_valid(broker, user="alice", aud="other")
        assert not await is_valid(broker, user="alice", iss="other")
        assert not await is_valid(broker, user="alice", may=5)
        assert await is_valid(broker, user="alice", exp=NOW_MS // 1000 - 9)
        assert not await is_valid(broker, user="alice", exp=NOW_MS // 1000 - 10)


class Issuer:
    """A server of a key set."""

    def __init__(self) -> None:
        self.keys = key_set(KEY)
        self.status = 200
        self.asked = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        return web.Response(status=self.status, text=self.keys)

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        runner = web.ServerRunner(web.Server(self.answer))
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/keys"
        await runner.cleanup()


async def test_an_address_of_keys_that_http_does_not_protect_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    oauth = listener_settings("SASL", "OAUTHBEARER")
    async with Issuer().serve() as url:
        for host, is_weak in (("127.0.0.1", False), ("0.0.0.0", True)):  # which is this machine, but not by name
            here = url.replace("127.0.0.1", host)
            keys = signed("SASL", here)
            caplog.clear()
            async with sasl_broker(tmp_path / host, oauth, keys) as broker:
                assert await is_valid(broker)
            assert (f"jwks.endpoint.url={here} decide who can log in" in caplog.text) == is_weak


@shows(
    "sasl.oauthbearer.jwks.endpoint.refresh.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
)
async def test_keys_are_read_again(tmp_path: Path) -> None:
    issuer = Issuer()
    times = {
        "jwks_endpoint_refresh_ms": "20",
        "jwks_endpoint_retry_backoff_ms": "5",
        "jwks_endpoint_retry_backoff_max_ms": "10",
    }
    oauth = listener_settings("SASL", "OAUTHBEARER")
    async with issuer.serve() as url, sasl_broker(tmp_path, oauth, signed("SASL", url, **times)) as broker:
        assert not await is_valid(broker, NEW_KEY)
        issuer.status = 500
        failed_at = issuer.asked

        async def is_asked_again() -> bool:
            return issuer.asked > failed_at + 3

        await until(is_asked_again, "the broker tries again")
        assert await is_valid(broker), "earlier keys stay"
        issuer.status, issuer.keys = 200, key_set(NEW_KEY)

        async def knows_the_new_key() -> bool:
            return await is_valid(broker, NEW_KEY)

        await until(knows_the_new_key, "the new key is known")
        assert not await is_valid(broker, KEY)


@pytest.mark.parametrize("text", [None, "not JSON", "{}"])
async def test_a_key_set_that_cannot_be_read_prevents_the_start(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "jwks.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(BrokerStartError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url"):
        async with sasl_broker(tmp_path, listener_settings("SASL", "OAUTHBEARER"), signed("SASL", file)):
            pass


TOKEN_KEY = {"delegation.token.secret.key": "one"}


async def new_token(broker: Broker) -> Any:
    """A token of alice, created over a connection."""
    async with connect(broker) as client:
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        await client.call(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"), 2)
        return await client.call(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1))


@shows("delegation.token.secret.key", "delegation.token.master.key")
@pytest.mark.parametrize("name", ["delegation.token.secret.key", "delegation.token.master.key"])
async def test_the_key_makes_the_secrets_of_tokens(tmp_path: Path, name: str) -> None:
    async with sasl_broker(tmp_path, PLAIN, {name: "a key"}) as broker:
        token = await new_token(broker)
        assert bytes(token.hmac) == hmac.digest(b"a key", token.token_id.encode(), "sha512")


@shows("delegation.token.expiry.time.ms", "delegation.token.max.lifetime.ms")
async def test_how_long_a_token_lives(tmp_path: Path) -> None:
    times = {"delegation.token.expiry.time.ms": "7", "delegation.token.max.lifetime.ms": "9"}
    async with sasl_broker(tmp_path, PLAIN, TOKEN_KEY | times) as broker:
        token = await new_token(broker)
        assert (token.expiry_timestamp_ms, token.max_timestamp_ms) == (NOW_MS + 7, NOW_MS + 9)


@shows("delegation.token.expiry.check.interval.ms")
async def test_expired_tokens_are_removed(tmp_path: Path) -> None:
    values = TOKEN_KEY | {"delegation.token.expiry.check.interval.ms": "5", "delegation.token.expiry.time.ms": "1"}
    async with sasl_broker(tmp_path, PLAIN, values) as broker:
        await new_token(broker)
        assert broker.services is not None
        tokens = broker.services.tokens
        tokens._now_ms = lambda: NOW_MS + 2
        await until(lambda: not tokens.described(Principal("User", "alice"), None), "the token is removed")
