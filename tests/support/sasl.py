"""SASL listeners of a broker under test, and users that can log in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from broker.authentication.scram_credentials import user_path
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest
from registry.embedded.store import EmbeddedStore
from registry.znodes.configs import ConfigZnode
from security.jaas import KERBEROS_MODULE, OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE
from security.sasl.scram import (
    SCRAM_MECHANISMS,
    ClientFinal,
    ClientFirst,
    ScramCredential,
    ServerFirst,
    auth_message,
)
from support.wire import WireClient

PLAIN_JAAS = f'{PLAIN_MODULE} required user_alice="alice-secret" user_admin="admin-secret";'
SCRAM_JAAS = f"{SCRAM_MODULE} required;"
OAUTHBEARER_JAAS = f"{OAUTHBEARER_MODULE} required;"
UNSECURED_HANDLER = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
SIGNED_HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
HANDLER = "sasl.server.callback.handler.class"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def listener_settings(listener: str, *mechanisms: str, **others: str) -> dict[str, str]:
    """The settings of a SASL listener with these mechanisms. Other settings have _ for each dot, without the prefix."""
    prefix = f"listener.name.{listener.lower()}."
    found = {f"{prefix}sasl.enabled.mechanisms": ",".join(mechanisms)}
    for mechanism in mechanisms:
        jaas = PLAIN_JAAS if mechanism == "PLAIN" else SCRAM_JAAS if mechanism in SCRAM else OAUTHBEARER_JAAS
        found[f"{prefix}{mechanism.lower()}.sasl.jaas.config"] = jaas
    return found | {f"{prefix}{name.replace('_', '.')}": value for name, value in others.items()}


def unsecured(listener: str) -> dict[str, str]:
    """The setting that accepts tokens without a signature."""
    return {f"listener.name.{listener.lower()}.oauthbearer.{HANDLER}": UNSECURED_HANDLER}


def signed(listener: str, jwks: Path | str, **others: str) -> dict[str, str]:
    """The settings that check tokens with a key set, in a file or at a URL."""
    prefix = f"listener.name.{listener.lower()}.oauthbearer."
    url = jwks.as_uri() if isinstance(jwks, Path) else jwks
    values = {HANDLER: SIGNED_HANDLER, "sasl.oauthbearer.jwks.endpoint.url": url}
    values |= {f"sasl.oauthbearer.{name.replace('_', '.')}": value for name, value in others.items()}
    return {prefix + name: value for name, value in values.items()}


def gssapi(listener: str, keytab: Path | str, principal: str, **others: str) -> dict[str, str]:
    """The settings of a listener with GSSAPI beside its other ones. others: as of `listener_settings`."""
    prefix = f"listener.name.{listener.lower()}."
    line = f'{KERBEROS_MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}";'
    found = {
        f"{prefix}sasl.enabled.mechanisms": "GSSAPI",
        f"{prefix}gssapi.sasl.jaas.config": line,
        "sasl.kerberos.service.name": "kafka",
    }
    return found | {f"{prefix}{name.replace('_', '.')}": value for name, value in others.items()}


def sasl_listeners(*names: str) -> dict[str, str]:
    """Addresses of these listeners, beside a PLAINTEXT one for the broker itself."""
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in ("PLAINTEXT", *names)),
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", *(f"{name}:SASL_PLAINTEXT" for name in names)]
        ),
    }


def credentials(
    password: str, *mechanisms: str, iterations: int = 4096, salt: bytes = b"0123456789abcdef"
) -> dict[str, str]:
    """The config of a user with this password."""
    return {
        name: ScramCredential.of_password(SCRAM_MECHANISMS[name], password, salt, iterations).text()
        for name in mechanisms or SCRAM
    }


async def store_with_users(users: Mapping[str, Mapping[str, str]]) -> EmbeddedStore:
    """A registry with these users and their configs."""
    store = await EmbeddedStore.open()
    session = store.session()
    await session.start()
    for user, config in users.items():
        path = ConfigZnode.entity_path(user_path(user))
        await session.create(path, ConfigZnode(config=dict(config)).encode(), make_parents=True)
    await session.close()
    return store


async def plain_login(client: WireClient, user: str, password: str) -> Any:
    """The answer to a login by PLAIN."""
    await client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    return await client.call(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode()), 2)


async def scram_login(
    client: WireClient,
    user: str,
    password: str,
    mechanism_name: str = "SCRAM-SHA-256",
    extensions: Mapping[str, str] | None = None,
) -> Any:
    """The last answer to a login by SCRAM."""
    mechanism = SCRAM_MECHANISMS[mechanism_name]
    await client.call(SaslHandshakeRequest(mechanism=mechanism_name), 1)
    first = ClientFirst.of(user, "a-nonce-of-the-client", extensions)
    answer = await client.call(SaslAuthenticateRequest(auth_bytes=first.encode()), 2)
    if answer.error_code:
        return answer
    server = ServerFirst.parse(bytes(answer.auth_bytes))
    without_proof = ClientFinal.text_without_proof(server.nonce)
    salted = mechanism.salted_password(password, server.salt, server.iterations)
    covered = auth_message(first.bare, server.text, without_proof)
    proof = mechanism.client_proof(mechanism.client_key(salted), covered)
    final = ClientFinal(server.nonce, proof, without_proof)
    return await client.call(SaslAuthenticateRequest(auth_bytes=final.encode()), 2)
