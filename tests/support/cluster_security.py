"""How the brokers and the clients of a cluster connect, by kind: `PLAINTEXT`, `SSL` or a protocol with its mechanism.

SSL is mutual: brokers and clients show the same certificate. With SASL, all log in as admin. Whoever connects so is a
super user of AclAuthorizer, and everybody else may do nothing. With PLAINTEXT there is no authorizer.
"""

from __future__ import annotations

import base64
import contextlib
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from broker.authentication.scram_credentials import user_path
from broker.settings.checks import ACL_AUTHORIZER
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from registry.interface import Registry
from registry.znodes.configs import ConfigZnode
from security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE
from support.certificates import authority, server_certificate
from support.counts import FULL
from support.sasl import HANDLER, SCRAM, UNSECURED_HANDLER, credentials, plain_login, scram_login
from support.tls_listening import client_tls
from support.wire import WireClient, wire_client

USER, PASSWORD = "admin", "admin-secret"
_LOGIN = f'username="{USER}" password="{PASSWORD}"'
JAAS = {
    "PLAIN": f'{PLAIN_MODULE} required {_LOGIN} user_{USER}="{PASSWORD}" user_alice="alice-secret";',
    "SCRAM-SHA-256": f"{SCRAM_MODULE} required {_LOGIN};",
    "SCRAM-SHA-512": f"{SCRAM_MODULE} required {_LOGIN};",
    "OAUTHBEARER": f'{OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub="{USER}";',
}
PLAINTEXT = "PLAINTEXT"
MUTUAL_TLS = "SSL"
SCRAM_OVER_TLS = "SASL_SSL SCRAM-SHA-512"
PLAIN = "SASL_PLAINTEXT PLAIN"
OAUTHBEARER = "SASL_PLAINTEXT OAUTHBEARER"
KINDS = (PLAINTEXT, MUTUAL_TLS, SCRAM_OVER_TLS, PLAIN, OAUTHBEARER)
ZOOKEEPER, SECURED_ZOOKEEPER, REGISTRY = "zookeeper", "secured zookeeper", "registry"


def with_security(*quick: str, full: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Parametrize a test with `zookeeper`, the servers, and `security`, a kind.

    SCRAM_OVER_TLS is with a ZooKeeper that has TLS and a login, too; it and `ottla registry` are in every test. What is
    in `quick` runs in `make test`; `full` and the rest, in test-full.
    """
    only_full = [pytest.mark.counted, pytest.mark.skipif(not FULL, reason="runs in make test-full")]
    pairs = [(SECURED_ZOOKEEPER if kind == SCRAM_OVER_TLS else ZOOKEEPER, kind) for kind in KINDS]
    wanted = {*quick, *full, SCRAM_OVER_TLS}
    cases = [pytest.param(*pair, marks=() if pair[1] in quick else only_full) for pair in pairs if pair[1] in wanted]
    cases.append(pytest.param(REGISTRY, PLAINTEXT, marks=only_full))
    return pytest.mark.parametrize(("zookeeper", "security"), cases, indirect=["zookeeper"])


class ClusterSecurity:
    """The settings of one kind for brokers and clients."""

    def __init__(self, kind: str, folder: Path) -> None:
        """folder: for the stores, if there is TLS."""
        self.protocol, _, self.mechanism = kind.partition(" ")
        self.has_tls = self.protocol.endswith("SSL")
        self.is_open = self.protocol == PLAINTEXT
        self._folder = folder
        if self.has_tls:
            folder.mkdir(exist_ok=True)
            server_certificate().write(folder / "server.pem")
            authority().write(folder / "ca.pem")

    def of_brokers(self, *listeners: str) -> dict[str, str]:
        """The settings of listeners of this kind. Brokers connect to the first one."""
        found = {
            "listener.security.protocol.map": ",".join(f"{name}:{self.protocol}" for name in listeners),
            "inter.broker.listener.name": listeners[0],
        }
        for name in listeners:
            found |= self.of_listener(name)
        if self.mechanism:
            found["sasl.mechanism.inter.broker.protocol"] = self.mechanism
        if not self.is_open:
            found |= {"authorizer.class.name": ACL_AUTHORIZER, "super.users": self.principal}
        return found

    @property
    def principal(self) -> str:
        """Who connects."""
        subject = server_certificate().certificate.subject.rfc4514_string()
        return f"User:{USER if self.mechanism else subject}"

    def of_listener(self, name: str) -> dict[str, str]:
        """The settings of one listener."""
        prefix, found = f"listener.name.{name.lower()}.", {}
        if self.has_tls:
            found |= {f"{prefix}ssl.{name}": value for name, value in self._stores().items()}
            found[f"{prefix}ssl.client.auth"] = "none" if self.mechanism else "required"
        if self.mechanism:
            found[f"{prefix}sasl.enabled.mechanisms"] = self.mechanism
            found[f"{prefix}{self.mechanism.lower()}.sasl.jaas.config"] = JAAS[self.mechanism]
        if self.mechanism == "OAUTHBEARER":
            found[f"{prefix}oauthbearer.{HANDLER}"] = UNSECURED_HANDLER
        return found

    def _stores(self) -> dict[str, str]:
        return {
            "keystore.type": "PEM",
            "keystore.location": str(self._folder / "server.pem"),
            "truststore.type": "PEM",
            "truststore.location": str(self._folder / "ca.pem"),
        }

    async def prepare(self, registry: Registry) -> None:
        """Add the user of the brokers, before the first one starts."""
        if self.mechanism in SCRAM:
            content = ConfigZnode(config=credentials(PASSWORD, self.mechanism, iterations=4096))
            await registry.create(ConfigZnode.entity_path(user_path(USER)), content.encode(), make_parents=True)

    # -- clients -----------------------------------------------------------------------------------------------------

    def of_clients(self) -> dict[str, Any]:
        """The options of Ottla's clients."""
        found: dict[str, Any] = {"security_protocol": self.protocol}
        if self.has_tls:
            of_a_server = ("keystore",) if self.mechanism else ()
            found |= {
                f"ssl_{name.replace('.', '_')}": value
                for name, value in self._stores().items()
                if not name.startswith(of_a_server)
            }
        if self.mechanism:
            found |= {"sasl_mechanism": self.mechanism, "sasl_jaas_config": JAAS[self.mechanism]}
        return found

    def of_librdkafka(self) -> dict[str, Any]:
        """The settings of librdkafka's clients."""
        found: dict[str, Any] = {"security.protocol": self.protocol}
        if self.has_tls:
            found["ssl.ca.location"] = str(self._folder / "ca.pem")
        if self.has_tls and not self.mechanism:
            own = str(self._folder / "server.pem")
            found |= {"ssl.certificate.location": own, "ssl.key.location": own}
        if self.mechanism == "OAUTHBEARER":
            unsigned = {"enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": f"principal={USER}"}
            found |= {"sasl.mechanism": self.mechanism} | unsigned
        elif self.mechanism:
            found |= {"sasl.mechanism": self.mechanism, "sasl.username": USER, "sasl.password": PASSWORD}
        return found

    @contextlib.asynccontextmanager
    async def wire(self, bootstrap: str) -> AsyncIterator[WireClient]:
        """A client on the level of frames, after its login."""
        tls = client_tls(None if self.mechanism else server_certificate()) if self.has_tls else None
        async with wire_client(bootstrap, tls) as client:
            if self.mechanism == "PLAIN":
                answer = await plain_login(client, USER, PASSWORD)
            elif self.mechanism == "OAUTHBEARER":
                await client.call(SaslHandshakeRequest(mechanism=self.mechanism), 1)
                message = f"n,,\1auth=Bearer {unsigned_token(USER)}\1\1"
                answer = await client.call(SaslAuthenticateRequest(auth_bytes=message.encode()), 2)
            elif self.mechanism:
                answer = await scram_login(client, USER, PASSWORD, self.mechanism)
            assert not self.mechanism or answer.error_code == 0
            yield client


def unsigned_token(user: str) -> str:
    """An OAUTHBEARER token without a signature, valid for an hour."""

    def section(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"sub": user, "iat": int(time.time()), "exp": int(time.time()) + 3600}
    return f"{section({'alg': 'none'})}.{section(claims)}."
