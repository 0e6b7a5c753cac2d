"""An issuer of signed tokens (RS256) in a thread: its key set, and a token endpoint for OAuth's client credentials."""

from __future__ import annotations

import base64
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self

from joserfc import jwt
from joserfc.jwk import RSAKey

from support.certificates import rsa_key

CLIENT, SECRET = "interop", "interop-secret"
"""Who may fetch tokens, for any user: the scope is its name."""
AUDIENCE: Final = "kafka"
LIFETIME_S: Final = 3600


class TokenIssuer:
    """A context manager."""

    def __init__(self) -> None:
        self._key = RSAKey.import_key(rsa_key(), {"kid": "issuer"})
        self.key_set = json.dumps({"keys": [self._key.as_dict(private=False)]})
        self.fetched = 0
        """How many tokens the endpoint has given."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    def token(self, user: str) -> str:
        """A token that is valid for an hour."""
        now = int(time.time())
        claims = {"sub": user, "aud": AUDIENCE, "iat": now, "exp": now + LIFETIME_S}
        return jwt.encode({"alg": "RS256", "kid": "issuer"}, claims, self._key)

    @property
    def key_set_url(self) -> str:
        """Where the public key is."""
        return f"http://127.0.0.1:{self._server.server_port}/jwks.json"

    @property
    def endpoint_url(self) -> str:
        """Where tokens are."""
        return f"http://127.0.0.1:{self._server.server_port}/token"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="token-issuer", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self
        login = "Basic " + base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, issuer.key_set)

            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                user = dict(part.partition("=")[::2] for part in form.split("&")).get("scope", "")
                if self.headers["Authorization"] != login:
                    self._answer(401, "{}")
                    return
                issuer.fetched += 1
                token = {"access_token": issuer.token(user), "token_type": "Bearer", "expires_in": LIFETIME_S}
                self._answer(200, json.dumps(token))

            def _answer(self, status: int, body: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: Any) -> None:
                """Print nothing."""

        return Handler
