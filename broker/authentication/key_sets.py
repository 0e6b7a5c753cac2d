"""JSON Web Key Sets of token issuers: read at the start and again every sasl.oauthbearer.jwks.endpoint.refresh.ms.

A token that names an unknown key makes the broker read the set at once: an issuer may have changed its keys. A set that
cannot be read later is tried again with back-off, and the earlier keys stay.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import ssl
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit
from urllib.request import url2pathname

from broker.authentication.settings import TokenSettings
from broker.errors import BrokerStartError
from client.wire.backoff import Backoff, Retries

logger = logging.getLogger(__name__)

MAX_BYTES = 1024 * 1024
_TIMEOUT_S = 10.0
_MIN_REFRESH_S = 1.0
"""The shortest time between two readings: clients can ask for one by naming an unknown key."""


class KeySetReader(Protocol):
    """Takes a key set, as JSON has been parsed. Raises ValueError."""

    def set_keys(self, key_set: Any) -> None:
        """Replace the keys."""


class KeySet:
    """The key set of one URL."""

    def __init__(self, settings: TokenSettings) -> None:
        self._settings = settings
        self._readers: list[KeySetReader] = []
        self._wanted = asyncio.Event()
        self._tls: ssl.SSLContext | None = None

    def add(self, reader: KeySetReader) -> None:
        """Keep the keys of a reader up to date."""
        self._readers.append(reader)

    def want(self) -> None:
        """Read the set soon: a token names a key that is not in it."""
        self._wanted.set()

    async def start(self) -> None:
        """Read the set for the first time. Raises BrokerStartError."""
        url = urlsplit(self._settings.jwks_url)
        if url.scheme == "http" and not _is_loopback(url.hostname or ""):
            logger.warning(
                "the keys of sasl.oauthbearer.jwks.endpoint.url=%s decide who can log in, and http: does not protect "
                "them on the network: use https:",
                self._settings.jwks_url,
            )
        if not self._settings.audiences and not self._settings.issuer:
            logger.warning(
                "neither sasl.oauthbearer.expected.audience nor sasl.oauthbearer.expected.issuer is set: every token "
                "that a key of %s has signed can log in, also one that was made for another service",
                self._settings.jwks_url,
            )
        if url.scheme == "https":
            self._tls = self._context()
        try:
            await self._read()
        except (OSError, ValueError) as error:
            name = f"sasl.oauthbearer.jwks.endpoint.url={self._settings.jwks_url}"
            raise BrokerStartError(f"{name} cannot be read: {error}") from None

    async def run(self) -> None:
        """Read the set again and again, until cancelled."""
        retries = Retries(Backoff(self._settings.retry_backoff_ms, self._settings.retry_backoff_max_ms))
        wait_s = self._settings.refresh_ms / 1000
        while True:
            await asyncio.sleep(min(_MIN_REFRESH_S, wait_s))
            try:
                async with asyncio.timeout(max(0.0, wait_s - _MIN_REFRESH_S)):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            self._wanted.clear()
            try:
                await self._read()
            except (OSError, ValueError) as error:
                logger.warning("the key set %s cannot be read: %s", self._settings.jwks_url, error)
                wait_s = retries.next_delay_s()
            else:
                wait_s = self._settings.refresh_ms / 1000
                retries.succeeded()

    def _context(self) -> ssl.SSLContext:
        # A broker without TLS must not wait for this import.
        from security.tls.contexts import client_context
        from security.tls.errors import TlsConfigError

        try:
            return client_context(self._settings.tls)
        except TlsConfigError as error:
            url = self._settings.jwks_url
            raise BrokerStartError(
                f"the options in the JAAS line for sasl.oauthbearer.jwks.endpoint.url={url}: {error}"
            ) from None

    async def _read(self) -> None:
        url = urlsplit(self._settings.jwks_url)
        reading = asyncio.to_thread(_read_file, url.path) if url.scheme == "file" else _fetch(url.geturl(), self._tls)
        text = await reading
        try:
            key_set = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError("it is not JSON, or too deeply nested") from None
        for reader in self._readers:
            reader.set_keys(key_set)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_file(path: str) -> bytes:
    with Path(url2pathname(path)).open("rb") as file:
        return file.read(MAX_BYTES)


async def _fetch(url: str, tls: ssl.SSLContext | None) -> bytes:
    import aiohttp  # 20 ms, and only brokers that ask an issuer need it

    try:
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(
                url,
                allow_redirects=False,  # the keys decide who can log in: only this URL may give them
                ssl=tls or True,
            ) as response,
        ):
            if 300 <= response.status < 400:
                raise OSError(
                    f"the server redirects (status {response.status}), which is not followed: set the new URL"
                )
            if response.status != 200:
                raise OSError(f"the server answers with status {response.status}")
            body = bytearray()
            async for chunk in response.content.iter_chunked(64 * 1024):
                body += chunk
                if len(body) > MAX_BYTES:
                    raise OSError(f"it is larger than {MAX_BYTES} bytes")
            return bytes(body)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise OSError(str(error) or type(error).__name__) from None
