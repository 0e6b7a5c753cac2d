"""Tokens of an endpoint: the request, how long a token is used, and answers that are no token."""

import asyncio
import base64
import contextlib
import random

import pytest
from aiohttp import web

from client.errors import AuthenticationError, InvalidOptionError
from client.wire import oauth_tokens
from client.wire.client_security import sasl_login
from client.wire.login_options import EndpointTokens
from client.wire.oauth_tokens import TokenEndpoint, TokenUnavailableError, program_tokens
from client.wire.security_options import SecurityOptions
from security.jaas import OAUTHBEARER_MODULE
from support.certificates import authority, other_authority
from support.web_server import served, server_tls

SECRET = "hunter:2=ä"


class Endpoint:
    """A token endpoint. `answers`: status and body of the next ones."""

    def __init__(self):
        self.answers = []
        self.asked = []

    async def answer(self, request):
        form = dict(await request.post())
        login = base64.b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode()
        self.asked.append((login, form))
        status, body = self.answers.pop(0) if self.answers else (200, {"access_token": f"token-{len(self.asked)}"})
        if status == 302:
            raise web.HTTPFound("/elsewhere")
        return web.json_response(body, status=status) if isinstance(body, dict) else web.Response(text=body)

    def url(self):
        return f"http://127.0.0.1:{self.port}/token"


@pytest.fixture
async def endpoint():
    made = Endpoint()
    app = web.Application()
    app.router.add_post("/token", made.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.port = runner.addresses[0][1]
    yield made
    await runner.cleanup()


def tokens(endpoint, scope=None):
    return TokenEndpoint(EndpointTokens(endpoint.url(), "me", SECRET, scope, {}))


async def test_the_request(endpoint):
    assert await tokens(endpoint, "kafka read").token() == "token-1"
    assert endpoint.asked == [(f"me:{SECRET}", {"grant_type": "client_credentials", "scope": "kafka read"})]


async def test_a_token_is_used_while_it_is_valid(endpoint):
    endpoint.answers = [(200, {"access_token": "first", "expires_in": 3600})]
    source = tokens(endpoint)
    assert await asyncio.gather(*(source.token() for _ in range(5))) == ["first"] * 5
    assert len(endpoint.asked) == 1


async def test_an_answer_that_does_not_arrive_at_once(endpoint):
    """It is larger than the client's buffer for what it has not read."""
    token = "long" * 100_000
    endpoint.answers = [(200, {"access_token": token})]
    assert await tokens(endpoint).token() == token


async def test_an_answer_that_is_too_large(endpoint, monkeypatch):
    monkeypatch.setattr(oauth_tokens, "_MAX_ANSWER_BYTES", 100)
    endpoint.answers = [(200, {"access_token": "x" * 100})]
    with pytest.raises(AuthenticationError, match="larger than 100 bytes"):
        await tokens(endpoint).token()


@pytest.mark.parametrize("ca", [None, authority(), other_authority()], ids=["the system's", "its own", "another"])
async def test_the_authorities_of_the_jaas_line_decide_about_the_endpoint(tmp_path, ca):
    async def answer(request):
        return web.json_response({"access_token": "token"})

    jaas = f"{OAUTHBEARER_MODULE} required clientId=me clientSecret=s"
    if ca is not None:
        ca.write(tmp_path / "ca.pem")
        jaas += f' ssl.truststore.type=PEM ssl.truststore.location="{tmp_path}/ca.pem"'
    async with served(answer, server_tls(tmp_path)) as port:
        options = SecurityOptions(
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_token_endpoint_url=f"https://localhost:{port}/",
            sasl_jaas_config=f"{jaas};",
        )
        login = sasl_login(options, random.Random(1))
        with contextlib.nullcontext() if ca is authority() else pytest.raises(AuthenticationError, match="certificate"):
            await login.new_exchange("localhost")


def test_a_trust_store_of_the_jaas_line_that_cannot_be_read_is_an_error_of_the_option():
    login = f"clientId=a clientSecret={SECRET[:6]}"
    options = SecurityOptions(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_endpoint_url="https://login.example/",
        sasl_jaas_config=f"{OAUTHBEARER_MODULE} required {login} ssl.truststore.location=none;",
    )
    with pytest.raises(InvalidOptionError, match=r"ssl\.truststore\.location") as caught:
        sasl_login(options, random.Random(1))
    assert caught.value.option == "sasl_jaas_config"
    assert SECRET[:6] not in str(caught.value)


async def test_a_token_without_a_time_is_used_once(endpoint):
    source = tokens(endpoint)
    assert [await source.token() for _ in range(2)] == ["token-1", "token-2"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((401, {"error": "invalid_client"}), r"status 401 \(invalid_client\)"),
        ((400, {"error": f"no {SECRET}"}), "status 400$"),
        ((200, {"token": "x"}), "no access_token"),
        ((200, "not JSON"), "no access_token"),
        ((302, {}), "status 302"),
    ],
    ids=["refused", "odd error", "another field", "not JSON", "redirected"],
)
async def test_an_answer_without_a_token(endpoint, answer, words):
    endpoint.answers = [answer]
    with pytest.raises(AuthenticationError, match=words) as caught:
        await tokens(endpoint).token()
    assert SECRET not in str(caught.value)


async def test_an_endpoint_that_has_failed_may_work_later(endpoint):
    endpoint.answers = [(503, {})]
    source = tokens(endpoint)
    with pytest.raises(TokenUnavailableError, match="status 503") as caught:
        await source.token()
    assert caught.value.retriable
    assert await source.token() == "token-2"


async def test_an_endpoint_that_cannot_be_reached():
    source = TokenEndpoint(EndpointTokens("http://127.0.0.1:1/token", "me", SECRET, None, {}))
    with pytest.raises(TokenUnavailableError, match="cannot be reached") as caught:
        await source.token()
    assert SECRET not in str(caught.value)


async def test_a_function_must_return_a_text():
    with pytest.raises(AuthenticationError, match="must return a text"):
        await program_tokens(lambda: b"token")()
