"""The login to a ZooKeeper server: SASL in ZooKeeper's packets, with DIGEST-MD5.

It is the first thing on every connection of a session, in kazoo's thread. kazoo has a login of its own, with another
library, which takes a connection that breaks for a refusal and ends the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kazoo.exceptions import EXCEPTIONS
from kazoo.protocol.serialization import SASL

from security.sasl.digest_md5_client import DigestMd5Client
from security.sasl.errors import SaslError
from security.secret import revealed

if TYPE_CHECKING:
    from registry.zookeeper.security import DigestLogin

_URI: Final = "zookeeper/zk-sasl-md5"  # ZooKeeper has this host name for every server


class LoginRefused(Exception):  # noqa: N818  # it is translated at once
    """The server refuses the login; the text is for the user."""


def log_in(connection: Any, login: DigestLogin, timeout_s: float) -> None:
    """Log in on kazoo's connection. Raises LoginRefused; and kazoo's ConnectionDropped, if the connection breaks."""
    exchange = DigestMd5Client(login.username, revealed(login.password), _URI)
    message: bytes | None = exchange.first()
    number = 0
    while message is not None:
        number += 1
        connection._submit(SASL(message), timeout_s, number)
        header, body, offset = connection._read_header(timeout_s)
        if header.err:
            kind = EXCEPTIONS[header.err].__name__
            raise LoginRefused(f"the server refuses user name and password ({kind})")
        answer, _ = SASL.deserialize(body, offset)
        if not answer:
            raise LoginRefused("the server has no SASL login (its JAAS file needs a section Server with the users)")
        try:
            message = exchange.answer(answer)
        except SaslError as error:
            raise LoginRefused(str(error)) from None
