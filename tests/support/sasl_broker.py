"""A fake broker that asks for a login, with or without TLS. It is not the broker of this project."""

from protocol.api_keys import ApiKey
from protocol.error_codes import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeResponse
from security.sasl.scram import (
    MIN_ITERATIONS,
    SCRAM_MECHANISMS,
    ClientFinal,
    ClientFirst,
    ScramCredential,
    ServerFinal,
    ServerFirst,
    auth_message,
)
from support.fake_broker import SERVED, FakeBroker
from support.tcp_server import TcpServer

USER, PASSWORD = "alice", "alice-secret"
SALT = b"0123456789abcdef"


class SaslBroker(FakeBroker):
    """`mechanisms` are enabled, `tokens` are valid; `lifetime_ms` is that of a session. One login runs at a time.

    `logins` counts successful ones. `iterations`: what SCRAM asks for. `forged`: SCRAM's signature is wrong,
    as of a server without the password.
    """

    served = (*SERVED, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)

    def __init__(self, *topics, mechanisms=("PLAIN", *SCRAM_MECHANISMS, "OAUTHBEARER"), tls=None):
        super().__init__(*topics)
        self.mechanisms = mechanisms
        self.tokens = {"good-token"}
        self.lifetime_ms = 0
        self.logins = 0
        self.forged = False
        self.iterations = MIN_ITERATIONS
        self._mechanism = ""
        self._scram = None
        if tls is not None:
            self._server = TcpServer(self._serve, tls=tls)

    def _sasl_handshake(self, request, version, error):
        self._mechanism = request.mechanism
        self._scram = None
        enabled = request.mechanism in self.mechanisms
        error = error or (ErrorCode.NONE if enabled else ErrorCode.UNSUPPORTED_SASL_MECHANISM)
        return SaslHandshakeResponse(error_code=error, mechanisms=list(self.mechanisms))

    def _sasl_authenticate(self, request, version, error):
        answer = None if error else self._step(bytes(request.auth_bytes))
        if answer is None:
            code = error or ErrorCode.SASL_AUTHENTICATION_FAILED
            return SaslAuthenticateResponse(error_code=code, error_message="Authentication failed: no")
        return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=self.lifetime_ms)

    def _step(self, message):
        """The server's next message; None refuses the login."""
        if self._mechanism == "PLAIN":
            return self._accept(message == f"\0{USER}\0{PASSWORD}".encode())
        if self._mechanism == "OAUTHBEARER":
            if message == b"\1":
                return None
            token = message.split(b"auth=Bearer ")[1].split(b"\1")[0].decode()
            return self._accept(True) if token in self.tokens else b'{"status":"invalid_token"}'
        return self._scram_step(SCRAM_MECHANISMS[self._mechanism], message)

    def _scram_step(self, mechanism, message):
        if self._scram is None:
            first = ClientFirst.parse(message)
            server = ServerFirst.of(first.nonce + "server", SALT, self.iterations)
            self._scram = first, server
            return server.encode() if first.user == USER else None
        first, server = self._scram
        final = ClientFinal.parse(message)
        credential = ScramCredential.of_password(mechanism, PASSWORD, SALT, self.iterations)
        signed = auth_message(first.bare, server.text, final.without_proof)
        if not mechanism.proves(final.proof, credential.stored_key, signed):
            return None
        signature = mechanism.server_signature(credential.server_key, b"other" if self.forged else signed)
        self._accept(True)
        return ServerFinal(signature).encode()

    def _accept(self, right):
        self.logins += right
        return b"" if right else None
