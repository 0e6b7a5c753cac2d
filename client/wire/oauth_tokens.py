"""Tokens for OAUTHBEARER: from a function of the program, or from a token endpoint (KIP-768).

A token of an endpoint serves the logins of all connections until 80 % of its time is over. An endpoint that cannot be
reached, or has an error of its own, may work later; one that refuses the client does not.
"""

import asyncio
import base64
import inspect
import json
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, Final

from client.errors import AuthenticationError, KafkaError
from client.wire.login_options import EndpointTokens
from client.wire.security_options import TokenProvider

TokenSource = Callable[[], Awaitable[str]]

_USED_PART: Final = 0.8
_TIMEOUT_S: Final = 10.0
_MAX_ANSWER_BYTES: Final = 1024 * 1024


class TokenUnavailableError(KafkaError):
    """The token endpoint cannot be reached, or it has failed; a later attempt may succeed."""

    retriable = True


def program_tokens(provider: TokenProvider) -> TokenSource:
    """Return tokens from a function of the program."""

    async def from_program() -> str:
        token = provider()
        if inspect.isawaitable(token):
            token = await token
        if not isinstance(token, str):
            raise AuthenticationError("sasl_oauth_token_provider must return a text or an awaitable of a text")
        return token

    return from_program


class TokenEndpoint:
    """OAuth's client credentials (RFC 6749, 4.4): a token for the id and the secret of a client."""

    def __init__(self, options: EndpointTokens, tls: ssl.SSLContext | None = None) -> None:
        """tls: of https: URLs; without it, the authorities of the system count."""
        self._url = options.url
        self._tls = tls or True
        self._options = options
        self._fetching = asyncio.Lock()
        self._token = ""
        self._use_until = float("-inf")

    async def token(self) -> str:
        """Return a token, the last one while it is new enough. Raises AuthenticationError, TokenUnavailableError."""
        async with self._fetching:
            loop = asyncio.get_running_loop()
            if loop.time() >= self._use_until:
                asked_at = loop.time()
                self._token, lifetime_s = _token_in(await self._fetch(), self._url)
                self._use_until = asked_at + lifetime_s * _USED_PART
            return self._token

    async def _fetch(self) -> bytes:
        """Return the body of the endpoint's answer."""
        import aiohttp  # takes 0.1 s; only clients with this login need it

        options = self._options
        form = {"grant_type": "client_credentials"} | ({"scope": options.scope} if options.scope else {})
        login = base64.b64encode(f"{options.client_id}:{options.client_secret}".encode()).decode()
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_TIMEOUT_S)) as session,
                session.post(
                    self._url,
                    data=form,
                    headers={"Authorization": f"Basic {login}"},
                    allow_redirects=False,
                    ssl=self._tls,
                ) as answer,
            ):
                received = bytearray()
                async for chunk in answer.content.iter_any():
                    received += chunk
                    if len(received) > _MAX_ANSWER_BYTES:
                        raise AuthenticationError(
                            f"token endpoint {self._url}: the answer is larger than {_MAX_ANSWER_BYTES} bytes"
                        )
                status, body = answer.status, bytes(received)
        except (aiohttp.ClientSSLError, aiohttp.InvalidURL) as error:
            raise AuthenticationError(f"token endpoint {self._url}: {error}") from None
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise TokenUnavailableError(f"token endpoint {self._url} cannot be reached: {reason}") from None
        if status == 429 or status >= 500:
            raise TokenUnavailableError(f"token endpoint {self._url} answered with status {status}")
        if status != 200:
            raise AuthenticationError(f"token endpoint {self._url} answered with status {status}{_error_in(body)}")
        return body


def _token_in(body: bytes, url: str) -> tuple[str, float]:
    """Return the token of an answer, and for how many seconds it is valid; 0 if the answer does not tell."""
    answer = _object_in(body)
    token, lifetime_s = answer.get("access_token"), answer.get("expires_in", 0)
    if not isinstance(token, str) or not token:
        raise AuthenticationError(f"token endpoint {url}: the answer has no access_token")
    return token, float(lifetime_s) if isinstance(lifetime_s, int | float) else 0.0


def _error_in(body: bytes) -> str:
    """Return OAuth's error code of an answer, such as invalid_client."""
    code = _object_in(body).get("error")
    return f" ({code})" if isinstance(code, str) and code.isascii() and code.replace("_", "").isalnum() else ""


def _object_in(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
