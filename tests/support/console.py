"""Requests to the console of a broker in this process, and brokers whose console has logins."""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from broker.broker import Broker
from broker.console.rights import Rights, Visitor
from broker.settings.config import BrokerConfig
from security.password_hash import ScryptHash
from security.principal import ANONYMOUS
from support.broker import settings

READS_ALL = Rights(None, Visitor(ANONYMOUS, "127.0.0.1"), "test", reads_all=True, acts=False)
"""The rights of a reader who may see everything."""


class Answer(NamedTuple):
    """An answer of the console."""

    status: int
    text: str
    headers: Mapping[str, str]
    challenges: list[str]


@contextlib.asynccontextmanager
async def console_broker(folder: Path, values: Mapping[str, str], **options: Any) -> AsyncIterator[Broker]:
    """Run a broker with a console on a loopback address, and these settings."""
    base = settings(folder / "data") | {
        "ottla.console.listener": "127.0.0.1:0",
        "connection.failed.authentication.delay.ms": "0",
    }
    async with Broker(BrokerConfig.load(None, base | dict(values)), **options) as broker:
        yield broker


async def ask(broker: Broker, path: str, *, method: str = "GET", **options: Any) -> Answer:
    """Send one request to the console. auth: a value of the Authorization header. Others are those of aiohttp."""
    assert broker.console is not None
    scheme = "http" if broker.console.tls is None else "https"
    headers = dict(options.pop("headers", {}))
    if (authorization := options.pop("auth", None)) is not None:
        headers["Authorization"] = authorization
    async with (
        aiohttp.ClientSession() as http,
        http.request(
            method, f"{scheme}://localhost:{broker.console.port}{path}", headers=headers, **options
        ) as response,
    ):
        challenges = response.headers.getall("WWW-Authenticate", [])
        return Answer(response.status, await response.text(), dict(response.headers), challenges)


def basic(user: str, password: str) -> str:
    """The value of an Authorization header."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def password_file(folder: Path, **passwords: str) -> dict[str, str]:
    """Write a file of users with cheap hashes; return the settings that name it."""
    lines = [f"{user}:{ScryptHash.of_password(one, log2_n=10, r=1, p=1)}\n" for user, one in passwords.items()]
    (folder / "users").write_text("# users of the console\n\n" + "".join(lines))
    return {"ottla.console.password.file": str(folder / "users")}


def token_file(folder: Path, **tokens: str) -> dict[str, str]:
    """Write a file of tokens; return the settings that name it."""
    lines = [f"{user}:$sha256${hashlib.sha256(one.encode()).hexdigest()}\n" for user, one in tokens.items()]
    (folder / "tokens").write_text("".join(lines))
    return {"ottla.console.token.file": str(folder / "tokens")}
