"""Logins of the console: passwords, tokens and certificates, what is refused, and what the audit log says."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import threading
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from joserfc import jwt
from joserfc.jwk import ECKey

from broker.authentication import audit
from broker.broker import Broker
from broker.console.passwords import MAX_CHECKS_OF_ADDRESS, Client, Passwords
from client.admin.admin import Admin
from security.password_hash import ScryptHash
from support.certificates import authority, client_certificate
from support.console import Answer, ask, basic, console_broker, password_file, token_file
from support.deadlines import DEADLINE_S
from support.polling import until
from support.tls_listening import client_tls, tls_settings

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOW_MS = 1_700_000_000_000
KEY, OTHER_KEY = (ECKey.generate_key("P-256", {"kid": "1"}) for _ in range(2))
CHALLENGES = ['Basic realm="Ottla", charset="UTF-8"', 'Bearer realm="Ottla"']
PAGES = ["/", "/static/app.js", "/metrics", "/api/cluster", "/api/v1/session", "/nothing"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A broker whose console knows SCRAM users, a file of users, a file of tokens, and an issuer of tokens."""
    folder = tmp_path_factory.mktemp("console")
    (folder / "jwks.json").write_text(json.dumps({"keys": [KEY.as_dict(private=False)]}))
    values = {
        "ottla.console.authentication": "scram,password-file,oauthbearer,token-file",
        "ottla.console.sasl.oauthbearer.jwks.endpoint.url": (folder / "jwks.json").as_uri(),
        "ottla.console.sasl.oauthbearer.expected.audience": "console",
        "ottla.console.sasl.oauthbearer.expected.issuer": "us",
        **password_file(folder, carol="carol-secret", dörte="größe:1"),
        **token_file(folder, prometheus="planted-token"),
    }
    async with console_broker(folder, values, now_ms=lambda: NOW_MS) as running:
        async with Admin(bootstrap_servers=running.bootstrap_servers) as admin:
            await admin.set_scram_password("alice", "alice-secret", ["SCRAM-SHA-256"])
            await admin.set_scram_password("both", "512-secret", ["SCRAM-SHA-512"])
            await admin.set_scram_password("both", "256-secret", ["SCRAM-SHA-256"])

        async def is_known() -> bool:
            return (await ask(running, "/api/v1/session", auth=basic("both", "256-secret"))).status == 200

        await until(is_known, "the SCRAM users are known")
        yield running


async def user(broker: Broker, authorization: str) -> str | None:
    """The user that a login proves; None if it is refused."""
    answer = await ask(broker, "/api/v1/session", auth=authorization)
    assert answer.status in (200, 401)
    return str(json.loads(answer.text)["user"]) if answer.status == 200 else None


def bearer(key: Any = KEY, **claims: Any) -> str:
    body = {"sub": "bob", "iat": NOW_MS // 1000, "exp": NOW_MS // 1000 + 60, "aud": "console", "iss": "us"} | claims
    return "Bearer " + jwt.encode({"alg": "ES256", "kid": key.kid}, body, key)


def unsigned(algorithm: str) -> str:
    def section(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"sub": "bob", "iat": NOW_MS // 1000, "exp": NOW_MS // 1000 + 60, "aud": "console", "iss": "us"}
    return f"Bearer {section({'alg': algorithm, 'kid': '1'})}.{section(claims)}."


@pytest.mark.parametrize("path", PAGES)
async def test_nothing_is_shown_without_a_login(broker: Broker, path: str) -> None:
    answer = await ask(broker, path)
    assert (answer.status, answer.challenges) == (401, CHALLENGES)
    said = "Only users that have logged in may read this."
    assert answer.text == (
        json.dumps({"error_code": 401, "message": said}) if path.startswith("/api/") else f"{said}\n"
    )
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none';")


async def test_health_is_open(broker: Broker) -> None:
    assert (await ask(broker, "/healthz"))[:2] == (200, "alive\n")
    assert (await ask(broker, "/readyz"))[:2] == (200, "ready\n")


async def test_why_a_broker_is_not_ready_is_not_shown_to_everybody(broker: Broker) -> None:
    assert broker.services is not None
    directory = broker.services.logs.dirs.all[0]
    directory.failure = "planted-path: Input/output error"
    try:
        assert (await ask(broker, "/readyz"))[:2] == (503, "not ready\n")
        cluster = json.loads((await ask(broker, "/api/cluster", auth=basic("carol", "carol-secret"))).text)
        assert "planted-path" in cluster["not_ready"]
    finally:
        directory.failure = None


@pytest.mark.parametrize(
    ("authorization", "name"),
    [
        pytest.param(basic("alice", "alice-secret"), "User:alice", id="SCRAM"),
        pytest.param(basic("both", "512-secret"), "User:both", id="SCRAM-SHA-512"),
        pytest.param(basic("both", "256-secret"), "User:both", id="the other mechanism"),
        pytest.param(basic("carol", "carol-secret"), "User:carol", id="file"),
        pytest.param(basic("dörte", "größe:1"), "User:dörte", id="file with UTF-8"),
        pytest.param(basic("alice", "alice-secret").replace("Basic", "bASIC  "), "User:alice", id="scheme in any case"),
        pytest.param("Bearer planted-token", "User:prometheus", id="static token"),
        pytest.param(bearer(), "User:bob", id="signed token"),
    ],
)
async def test_logins(broker: Broker, authorization: str, name: str) -> None:
    assert await user(broker, authorization) == name
    assert await user(broker, authorization) == name  # a password is remembered


WRONG = {
    "wrong password": basic("alice", "alice-secre"),
    "password of another user": basic("alice", "carol-secret"),
    "unknown user": basic("mallory", "alice-secret"),
    "no password": basic("alice", ""),
    "no user": basic("", "alice-secret"),
    "no colon": "Basic " + base64.b64encode(b"alice").decode(),
    "not base64": "Basic alice:alice-secret",
    "not UTF-8": "Basic " + base64.b64encode(b"\xff:\xfe").decode(),
    "nothing": "",
    "another scheme": 'Digest username="alice"',
    "token as password": basic("prometheus", "planted-token"),
    "unknown static token": "Bearer planted-toke",
    "no token": "Bearer",
    "a token that is not ASCII": "Bearer \u00e9.\u00fc.\u00df",
    "a password that is not ASCII": "Basic \u00e9\u00fc",
    "a signature that is not base64": bearer().rpartition(".")[0] + ".\u00e9",
    "hash as token": "Bearer $sha256$00",
    "expired token": bearer(exp=NOW_MS // 1000 - 60),
    "token from the future": bearer(nbf=NOW_MS // 1000 + 3600),
    "another audience": bearer(aud="kafka"),
    "another issuer": bearer(iss="them"),
    "forged": bearer(OTHER_KEY),
    "unsigned": unsigned("none"),
    "signed with the public key": unsigned("HS256"),
}


@pytest.mark.parametrize("authorization", [pytest.param(text, id=name) for name, text in WRONG.items()])
async def test_logins_that_are_refused(broker: Broker, authorization: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    answer = await ask(broker, "/api/cluster", auth=authorization)
    assert (answer.status, answer.text) == (401, '{"error_code": 401, "message": "The login is not valid."}')
    assert answer.challenges == [CHALLENGES[0], CHALLENGES[1] + ', error="invalid_token"']
    (line,) = audit_lines(caplog)
    assert line.startswith('failed: host="127.0.0.1" mechanism=')
    assert line.endswith(" listener=console")
    for secret in ("secret", "planted", authorization.partition(" ")[2][:40] or "secret"):
        assert secret not in caplog.text


def audit_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if one.name == audit.logger.name]


async def test_two_logins_in_one_request_are_refused(broker: Broker) -> None:
    headers = [("Authorization", basic("alice", "alice-secret")), ("Authorization", basic("carol", "carol-secret"))]
    assert (await raw(broker, headers)).startswith(b"HTTP/1.1 4")


async def raw(broker: Broker, headers: list[tuple[str, str]]) -> bytes:
    """Send headers as they are; return the beginning of the answer."""
    assert broker.console is not None
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.console.port)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    writer.write(f"GET /api/v1/session HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode())
    answer = await reader.readline()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_a_user_name_cannot_begin_a_line_of_the_audit_log(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, audit.logger.name)
    name = 'x" listener=SASL\nauthenticated: principal="User:admin"\x1b[2J\u2028'
    await ask(broker, "/api/v1/session", auth=basic(name, "p"))
    (line,) = audit_lines(caplog)
    assert line.isprintable()
    assert line.isascii()
    assert '" listener=SASL' not in line.replace('\\"', "")


async def test_a_malformed_request_is_not_logged(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    assert (await raw(broker, [("Authorization", "Basic planted\0secret")])).startswith(b"HTTP/1.0 400")
    assert (await raw(broker, [("Authorization", "Bearer " + "planted" * 5000)])).startswith(b"HTTP/1.0 400")
    assert "planted" not in caplog.text


async def test_successful_logins_are_logged_at_level_debug(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, audit.logger.name)
    await user(broker, "Bearer planted-token")
    assert audit_lines(caplog) == [
        'authenticated: principal="User:prometheus" host="127.0.0.1" mechanism=Bearer token=no listener=console'
    ]


async def test_a_changed_or_removed_password_counts_at_once(broker: Broker) -> None:
    async def is_user(password: str, known: bool) -> None:
        async def holds() -> bool:
            return (await user(broker, basic("changing", password)) is not None) is known

        await until(holds, f"the password is {'right' if known else 'wrong'}")

    async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        await admin.set_scram_password("changing", "first", ["SCRAM-SHA-256"])
        await is_user("first", True)
        await admin.set_scram_password("changing", "second", ["SCRAM-SHA-256"])
        await is_user("first", False)
        await is_user("second", True)
        await admin.delete_scram_credentials("changing", ["SCRAM-SHA-256"])
        await is_user("second", False)


async def test_a_failure_is_held_back_and_others_are_served_meanwhile(tmp_path: Path) -> None:
    values = {
        "ottla.console.authentication": "token-file",
        "connection.failed.authentication.delay.ms": "3600000",
        "connections.max.idle.ms": "-1",
        **token_file(tmp_path, prometheus="planted-token"),
    }
    async with console_broker(tmp_path, values) as broker:
        waiting = asyncio.create_task(ask(broker, "/metrics", auth="Bearer x"))
        assert (await ask(broker, "/metrics", auth="Bearer planted-token")).status == 200
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])


async def test_clients_that_leave_cannot_keep_others_from_logging_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    values = {"ottla.console.authentication": "password-file", **password_file(tmp_path, carol="carol-secret")}
    may_end = threading.Event()
    checks: list[str] = []
    clients: list[Client] = []
    are_right = Passwords.are_right

    def verifies(stored: ScryptHash, password: str) -> bool:
        checks.append(password)
        may_end.wait()
        return password == "carol-secret"

    async def noted(passwords: Passwords, user: str, password: str, client: Client) -> bool:
        clients.append(client)
        return await are_right(passwords, user, password, client)

    monkeypatch.setattr(ScryptHash, "verifies", verifies)
    monkeypatch.setattr(Passwords, "are_right", noted)
    async with console_broker(tmp_path, values) as broker:
        try:
            number = MAX_CHECKS_OF_ADDRESS + 1
            asked = [asyncio.create_task(ask(broker, "/", auth=basic("x", "y"))) for _ in range(number)]
            (refused,), waiting = await asyncio.wait(asked, return_when="FIRST_COMPLETED", timeout=DEADLINE_S)
            answer = refused.result()
            assert (answer.status, answer.headers["Retry-After"], answer.challenges) == (503, "5", [])
            await until(lambda: checks == ["y"], "the thread of the first check has begun")
            for one in waiting:
                one.cancel()
            await asyncio.wait(waiting)
            await until(lambda: all(one.closed for one in clients), "the server has seen that they have left")
            assert (len(clients), checks) == (number, ["y"])
            may_end.set()

            async def is_let_in() -> bool:
                return (await ask(broker, "/", auth=basic("carol", "carol-secret"))).status == 200

            await until(is_let_in, "there is room again")
            assert checks == ["y", "carol-secret"]
            assert "never retrieved" not in caplog.text
        finally:
            may_end.set()


async def test_certificates(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, audit.logger.name)
    values = {f"ottla.console.{name}": value for name, value in tls_settings(tmp_path).items()} | {
        "ottla.console.listener": "https://127.0.0.1:0",
        "ottla.console.authentication": "certificate",
        "ottla.console.ssl.client.auth": "requested",
        "ottla.console.ssl.principal.mapping.rules": "RULE:^CN=([a-z]+)$/$1/",
    }
    async with console_broker(tmp_path, values) as broker:

        async def answer(issued: Any = None) -> Answer:
            return await ask(broker, "/api/v1/session", ssl=client_tls(issued))

        assert json.loads((await answer(client_certificate())).text)["user"] == "User:client"
        nobody = await answer()
        assert (nobody.status, nobody.challenges) == (403, [])
        assert nobody.text == (
            '{"error_code": 403, "message": "Only users that have logged in may read this: show a client certificate."}'
        )
        with pytest.raises(aiohttp.ServerDisconnectedError):  # no rule gives this subject a name
            await answer(authority().issue("CN=Client 7"))
        assert (await answer(client_certificate())).status == 200
    user, *refused, again = audit_lines(caplog)  # the client repeats the request that is refused
    assert user == 'authenticated: principal="User:client" host="127.0.0.1" mechanism=TLS token=no listener=console'
    assert refused
    for line in refused:
        assert line.startswith('failed: host="127.0.0.1" mechanism=TLS reason="the client certificate gives no user')
        assert line.endswith(" listener=console")
    assert again == user


async def test_a_certificate_is_no_login_unless_it_is_asked_for(tmp_path: Path) -> None:
    values = {f"ottla.console.{name}": value for name, value in tls_settings(tmp_path).items()} | {
        "ottla.console.listener": "https://127.0.0.1:0",
        "ottla.console.authentication": "token-file",
        "ottla.console.ssl.client.auth": "requested",
        **token_file(tmp_path, prometheus="planted-token"),
    }
    async with console_broker(tmp_path, values) as broker:
        context = client_tls(client_certificate())
        assert (await ask(broker, "/metrics", ssl=context)).status == 401
        assert (await ask(broker, "/metrics", ssl=context, auth="Bearer planted-token")).status == 200
