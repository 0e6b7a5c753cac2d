"""Key sets that cannot be read, and addresses that do not protect them."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from broker.authentication import key_sets
from broker.authentication.key_sets import KeySet
from broker.authentication.settings import TokenSettings
from broker.errors import BrokerStartError
from security.tls.settings import TlsSettings
from support.certificates import Authority, authority, other_authority
from support.polling import until
from support.web_server import served, server_tls


class Reader:
    def __init__(self) -> None:
        self.found: list[Any] = []

    def set_keys(self, key_set: Any) -> None:
        self.found.append(key_set)


def key_set(
    url: str, audiences: tuple[str, ...] = (), issuer: str | None = None, tls: TlsSettings | None = None
) -> tuple[KeySet, Reader]:
    settings = TokenSettings(
        url,
        audiences,
        issuer,
        0,
        "sub",
        "scope",
        refresh_ms=5,
        retry_backoff_ms=5,
        retry_backoff_max_ms=5,
        tls=tls or TlsSettings(),
    )
    found, reader = KeySet(settings), Reader()
    found.add(reader)
    return found, reader


@contextlib.asynccontextmanager
async def server(answers: dict[str, web.Response | Exception], tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        found = answers[request.path]
        if isinstance(found, Exception):
            raise found
        return web.Response(status=found.status, text=found.text)

    async with served(answer, tls) as port:
        yield f"http://127.0.0.1:{port}" if tls is None else f"https://localhost:{port}"


async def test_deeply_nested_json_prevents_the_start_and_is_logged_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "keys.json"
    file.write_text("[" * 200_000)
    keys, reader = key_set(file.as_uri())
    with pytest.raises(BrokerStartError, match="too deeply nested"):
        await keys.start()
    running = asyncio.create_task(keys.run())
    await until(lambda: running.done() or caplog.text.count("cannot be read") > 1, "it is logged and tried again")
    file.write_text('{"keys": []}')
    await until(lambda: running.done() or reader.found, "the set is read")
    assert not running.done()
    running.cancel()


async def test_a_redirect_is_an_error() -> None:
    async with server({"/old": web.HTTPFound("/new"), "/new": web.Response(text='{"keys": []}')}) as url:
        keys, reader = key_set(f"{url}/old")
        with pytest.raises(BrokerStartError, match="redirects"):
            await keys.start()
        assert reader.found == []
        await key_set(f"{url}/new")[0].start()


@pytest.mark.parametrize("ca", [None, authority(), other_authority()], ids=["the system's", "its own", "another"])
async def test_authorities_that_are_named_decide_about_the_address(tmp_path: Path, ca: Authority | None) -> None:
    tls = None if ca is None else TlsSettings(truststore_type="PEM", truststore_certificates=ca.pem())
    async with server({"/keys": web.Response(text='{"keys": []}')}, server_tls(tmp_path)) as url:
        keys, reader = key_set(f"{url}/keys", tls=tls)
        if ca is authority():
            await keys.start()
            assert reader.found == [{"keys": []}]
        else:
            with pytest.raises(BrokerStartError, match="certificate verify failed"):
                await keys.start()


async def test_an_authority_that_cannot_be_read_prevents_the_start() -> None:
    with pytest.raises(BrokerStartError, match=r"ssl\.truststore\.location"):
        await key_set("https://login.example/keys", tls=TlsSettings(truststore_location="none"))[0].start()


@pytest.mark.parametrize(
    ("url", "is_weak"),
    [
        ("http://login.example/keys", True),
        ("http://192.0.2.1/keys", True),
        ("https://login.example/keys", False),
        ("http://localhost:8080/keys", False),
        ("http://127.0.0.2/keys", False),
        ("http://[::1]:8080/keys", False),
    ],
)
async def test_http_to_another_machine_causes_a_warning(
    url: str, is_weak: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fetch(url: str, tls: ssl.SSLContext | None) -> bytes:
        return b"{}"

    monkeypatch.setattr(key_sets, "_fetch", fetch)
    await key_set(url)[0].start()
    assert ("use https:" in caplog.text) is is_weak


@pytest.mark.parametrize(
    ("audiences", "issuer", "is_weak"), [((), None, True), (("a",), None, False), ((), "i", False)]
)
async def test_tokens_of_any_audience_and_issuer_cause_a_warning(
    audiences: tuple[str, ...],
    issuer: str | None,
    is_weak: bool,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def fetch(url: str, tls: ssl.SSLContext | None) -> bytes:
        return b"{}"

    monkeypatch.setattr(key_sets, "_fetch", fetch)
    await key_set("https://login.example/keys", audiences, issuer)[0].start()
    assert caplog.text.count("neither sasl.oauthbearer.expected.audience nor") == is_weak
