"""What every request to the console must pass: the names in Host headers, and the origin of requests that change."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from broker.broker import Broker
from broker.console.same_origin import is_of_this_site
from support.console import ask, basic, console_broker, password_file

pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON = {"Content-Type": "application/json"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def broker(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("console")
    values = {
        "ottla.console.authentication": "password-file",
        "ottla.console.hosts": "Kafka.Example.org, kafka",
        **password_file(folder, alice="alice-secret"),
    }
    async with console_broker(folder, values) as running:
        yield running


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("kafka.example.org", 200),
        ("KAFKA.example.ORG.:8080", 200),
        ("kafka:443", 200),
        ("192.0.2.7:8080", 200),
        ("[2001:db8::1]:8080", 200),
        ("localhost", 403),
        ("attacker.example", 403),
        ("kafka.example.org.attacker.example", 403),
        ("[attacker.example]", 403),
        ("[::1].attacker.example", 403),
        ("[::1]attacker.example:80", 403),
        ("kafka:1@attacker.example", 403),
        ("kafka:80:attacker.example", 403),
        ("kafka:", 200),
        ("", 403),
    ],
)
async def test_names_of_the_settings(broker: Broker, host: str, status: int) -> None:
    for path in ("/healthz", "/api/v1/session"):
        answer = await ask(broker, path, headers={"Host": host}, auth=basic("alice", "alice-secret"))
        assert answer.status == status, answer


@pytest.mark.parametrize(
    ("request_line", "status", "end"),
    [
        (b"GET /metrics HTTP/1.0", b"400", b"The request has no Host header.\n"),
        (b"POST /healthz HTTP/1.0", b"400", b"The request has no Host header.\n"),
        (b"GET /healthz HTTP/1.0", b"200", b""),  # as load balancers send it
    ],
)
async def test_a_request_without_a_host_is_refused_and_asks_no_dns(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, request_line: bytes, status: bytes, end: bytes
) -> None:
    assert broker.console is not None
    monkeypatch.setattr(web.BaseRequest, "host", property(lambda request: pytest.fail("a name is looked up")))
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.console.port)
    writer.write(request_line + b"\r\n\r\n")
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.0 " + status)
    assert answer.endswith(end)
    writer.close()
    await writer.wait_closed()


async def test_a_wrong_name_is_refused_before_the_login(broker: Broker) -> None:
    answer = await ask(broker, "/api/cluster", headers={"Host": "attacker.example"})
    assert (answer.status, answer.challenges) == (403, [])
    assert json.loads(answer.text) == {
        "error_code": 403,
        "message": "The Host header has a name that is not in ottla.console.hosts.",
    }


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param(JSON, 405, id="a program"),
        pytest.param(JSON | {"Origin": "http://kafka"}, 405, id="the console itself"),
        pytest.param(JSON | {"Origin": "https://KAFKA"}, 405, id="behind a proxy with TLS"),
        pytest.param(JSON | {"Origin": "http://attacker.example"}, 403, id="another site"),
        pytest.param(JSON | {"Origin": "http://kafka.attacker.example"}, 403, id="a longer name"),
        pytest.param(JSON | {"Origin": "http://kafka:81"}, 403, id="another port"),
        pytest.param(JSON | {"Origin": "null"}, 403, id="no origin"),
        pytest.param(JSON | {"Origin": "http://["}, 403, id="not an origin"),
        pytest.param(JSON | {"Sec-Fetch-Site": "cross-site"}, 403, id="cross-site"),
        pytest.param(JSON | {"Sec-Fetch-Site": "same-site"}, 403, id="another host of the site"),
        pytest.param(JSON | {"Sec-Fetch-Site": "same-origin", "Origin": "http://kafka"}, 405, id="same origin"),
        pytest.param({"Content-Type": "text/plain"}, 415, id="a form can send text"),
        pytest.param({"Content-Type": "application/x-www-form-urlencoded"}, 415, id="a form"),
        pytest.param({}, 415, id="no content type"),
    ],
)
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_requests_that_would_change_something(
    broker: Broker, method: str, headers: dict[str, str], status: int
) -> None:
    """405: they have passed, and there is no such action yet."""
    sent = {"Host": "kafka"} | headers
    answer = await ask(
        broker, "/api/cluster", method=method, headers=sent, auth=basic("alice", "alice-secret"), data=b"{}"
    )
    assert answer.status == status
    assert "error" in answer.text or status == 405


@pytest.mark.parametrize(("method", "status"), [("DELETE", 405), ("PUT", 405), ("POST", 415)])
async def test_a_request_without_a_body_needs_no_json_if_no_form_can_send_it(
    broker: Broker, method: str, status: int
) -> None:
    answer = await ask(
        broker,
        "/api/cluster",
        method=method,
        headers={"Host": "kafka"},
        auth=basic("alice", "alice-secret"),
        skip_auto_headers=["Content-Type"],
    )
    assert answer.status == status


async def test_they_need_a_login_too(broker: Broker) -> None:
    answer = await ask(broker, "/api/cluster", method="POST", headers={"Host": "kafka"} | JSON)
    assert answer.status == 401


async def test_reading_from_another_site_is_answered_without_leave_for_its_page(broker: Broker) -> None:
    headers = {"Host": "kafka", "Origin": "http://attacker.example"}
    answer = await ask(broker, "/api/v1/session", headers=headers, auth=basic("alice", "alice-secret"))
    assert answer.status == 200
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


async def test_an_origin_has_no_path() -> None:
    assert not is_of_this_site({"Origin": "http://kafka/x"}, "kafka")
    assert not is_of_this_site({"Origin": "file://kafka"}, "kafka")
    assert is_of_this_site({"Origin": "http://kafka"}, "KAFKA")


async def test_an_unknown_method_needs_json_on_open_paths_too(tmp_path: Path) -> None:
    async with console_broker(tmp_path, {}) as broker:
        assert (await ask(broker, "/healthz", method="POST")).status == 415
        assert (await ask(broker, "/healthz", method="POST", headers=JSON)).status == 405
