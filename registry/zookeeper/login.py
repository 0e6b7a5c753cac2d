"""The login to a ZooKeeper server: SASL in ZooKeeper's packets, with DIGEST-MD5 or GSSAPI (Kerberos).

It is the first thing on every connection of a session, in kazoo's thread, so it may read files and ask a KDC. kazoo has
a login of its own, with another library, which takes a connection that breaks for a refusal and ends the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol.serialization import SASL

from registry.zookeeper.security import DigestLogin
from security.sasl.digest_md5_client import DigestMd5Client
from security.sasl.errors import SaslError
from security.sasl.gss_context import KerberosError
from security.secret import revealed

if TYPE_CHECKING:
    from registry.zookeeper.security import Login
    from security.sasl.client_exchange import ClientExchange

_URI: Final = "zookeeper/zk-sasl-md5"  # ZooKeeper has this host name for every server


class LoginRefused(Exception):  # noqa: N818  # it is translated at once
    """The server refuses the login, or there is no ticket for it; the text is for the user."""


class LoginPostponed(Exception):  # noqa: N818  # it is translated at once
    """The login may succeed later, for example because no KDC answers; the text is for the user."""


def log_in(connection: Any, login: Login, host: str, timeout_s: float) -> None:
    """Log in on kazoo's connection to a host.

    Raises LoginRefused, LoginPostponed, and kazoo's ConnectionDropped if the connection breaks.
    """
    exchange = _exchange(login, host)
    message: bytes | None = exchange.first()
    number = 0
    while message is not None:
        number += 1
        connection._submit(SASL(message), timeout_s, number)
        header, body, offset = connection._read_header(timeout_s)
        if header.err:
            kind = EXCEPTIONS[header.err].__name__
            what = "user name and password" if isinstance(login, DigestLogin) else "the ticket"
            raise LoginRefused(f"the server refuses {what} ({kind})")
        answer, _ = SASL.deserialize(body, offset)
        if not answer and not exchange.is_last:
            raise LoginRefused("the server has no SASL login (its JAAS file needs a section Server)")
        try:
            message = exchange.answer(answer or b"")
        except SaslError as error:
            raise LoginRefused(str(error)) from None


def _exchange(login: Login, host: str) -> ClientExchange:
    if isinstance(login, DigestLogin):
        return DigestMd5Client(login.username, revealed(login.password), _URI)
    from security.sasl.gssapi_client import GssapiClient
    from security.sasl.kerberos import initiate  # the package gssapi is optional

    try:
        return GssapiClient(initiate(login.tickets, login.service, host))
    except KerberosError as error:
        raise (LoginPostponed if error.is_transient else LoginRefused)(f"GSSAPI: {error}") from None
