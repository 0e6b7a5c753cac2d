"""How a registry reaches ZooKeeper: with TLS, with a login, and whether it protects what it creates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from security.sasl.kerberos_login import KerberosLogin

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from security.secret import Secret


class DigestLogin(NamedTuple):
    """User and password of a login with DIGEST-MD5. The password is not in the `repr`."""

    username: str
    password: Secret


class TicketLogin(NamedTuple):
    """A login with GSSAPI: where the ticket is from, and the first part of the servers' principals, `service/host`."""

    tickets: KerberosLogin
    service: str


Login: TypeAlias = DigestLogin | TicketLogin


@dataclass(frozen=True, slots=True)
class ZooKeeperSecurity:
    """tls: None for plain text. login: None for none. sets_acls: whether znodes get Kafka's ACLs when created.

    `tls` is called for each connection, so that new certificates in the files are used; it may raise
    ZooKeeperSettingError.
    """

    tls: Callable[[], ssl.SSLContext] | None = None
    login: Login | None = None
    sets_acls: bool = False


UNSECURED: Final = ZooKeeperSecurity()
