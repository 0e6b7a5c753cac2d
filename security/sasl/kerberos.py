"""Kerberos by the package `gssapi`, which uses MIT's library: tickets, keytabs, and both sides of a security context.

The package is optional (the extra `kerberos`): this module is imported only where GSSAPI is used. Functions here read
files, and those of clients ask a KDC.

- The keytab of a server is read for each client, so that new keys in the file count at once.
- The tickets of a keytab are kept in memory, one cache for each keytab and principal. The library uses the
  ticket-granting ticket for half of its time, then it gets a new one with the keytab; there is nothing to renew.
- The library's settings are in krb5.conf, which the environment variable KRB5_CONFIG can name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import gssapi
from gssapi import raw

from security.sasl.gss_context import KerberosError
from security.sasl.kerberos_login import KerberosLogin

_KRB5: Final = gssapi.MechType.kerberos
# Errors are 32 bits without a sign; those of the protocol begin here (RFC 4120, section 7.5.9).
_PROTOCOL_ERRORS: Final = (-1765328384) & 0xFFFFFFFF
_TRANSIENT: Final = frozenset(
    _PROTOCOL_ERRORS + number
    for number in (
        21,  # the client is not valid yet
        29,  # a service of the KDC is not available
        33,  # the ticket is not valid yet
        34,  # the token is a replay
        156,  # no KDC can be reached
        220,  # the address of the KDC cannot be resolved
    )
)


def default_realm() -> str:
    """Return the realm of principals that are written without one; empty if krb5.conf has none."""
    try:
        with _reasons():
            return _text(raw.canonicalize_name(raw.import_name(b"x", gssapi.NameType.user), _KRB5)).rpartition("@")[2]
    except KerberosError:
        return ""


class Acceptor:
    """A server's principal, with its key in a keytab."""

    def __init__(self, keytab: str, principal: str) -> None:
        """Check that the key is there. Raises KerberosError."""
        self._credentials = _credentials("accept", principal, {"keytab": keytab})

    def context(self) -> _Accepting:
        """Return a context for one client."""
        return _Accepting(self._credentials)


def initiate(login: KerberosLogin, service: str, host: str) -> _Initiating:
    """Return a context for one login at `service` on `host`. It gets tickets if necessary. Raises KerberosError."""
    credentials = _tickets(login)
    with _reasons():
        name = raw.import_name(f"{service}@{host}".encode(), gssapi.NameType.hostbased_service)
    return _Initiating(credentials, name)


class _Context:
    """What both sides do with an established context."""

    def __init__(self) -> None:
        self.is_established = False
        self._context: raw.SecurityContext | None = None

    def wrap(self, message: bytes) -> bytes:
        with _reasons():
            return bytes(raw.wrap(self._established(), message, confidential=False).message)

    def unwrap(self, token: bytes) -> bytes:
        with _reasons():
            return bytes(raw.unwrap(self._established(), token).message)

    def _established(self) -> raw.SecurityContext:
        if self._context is None or not self.is_established:
            raise KerberosError("the context is not established")
        return self._context


class _Accepting(_Context):
    """See `AcceptorContext`."""

    def __init__(self, credentials: raw.Creds) -> None:
        super().__init__()
        self._credentials = credentials
        self._client = ""

    def step(self, token: bytes | None) -> bytes | None:
        with _reasons():
            done = raw.accept_sec_context(token or b"", self._credentials, self._context)
            self._context = done.context
            if not done.more_steps:
                self._client = _text(done.initiator_name)
                self.is_established = True
        return None if done.token is None else bytes(done.token)

    def client(self) -> str:
        return self._client


class _Initiating(_Context):
    """See `SecurityContext`."""

    def __init__(self, credentials: raw.Creds, name: raw.Name) -> None:
        super().__init__()
        self._credentials = credentials
        self._name = name

    def step(self, token: bytes | None) -> bytes | None:
        flags = [gssapi.RequirementFlag.mutual_authentication]
        with _reasons():
            done = raw.init_sec_context(self._name, self._credentials, self._context, _KRB5, flags, input_token=token)
        self._context = done.context
        self.is_established = not done.more_steps
        return None if done.token is None else bytes(done.token)


def _tickets(login: KerberosLogin) -> raw.Creds:
    """Return credentials with a ticket-granting ticket that is valid now. Raises KerberosError."""
    if login.uses_ticket_cache:
        try:
            store = {} if login.ticket_cache is None else {"ccache": login.ticket_cache}
            return _credentials("initiate", login.principal, store)
        except KerberosError:
            if login.keytab is None:
                raise
    if login.keytab is None or login.principal is None:
        return _credentials("initiate", None, {})  # those of the environment: KRB5CCNAME, or the user's default
    _credentials("accept", login.principal, {"keytab": login.keytab})  # else a missing key gives a misleading error
    name = hashlib.sha256(f"{login.keytab}\0{login.principal}".encode()).hexdigest()
    return _credentials("initiate", login.principal, {"client_keytab": login.keytab, "ccache": f"MEMORY:ottla-{name}"})


def _credentials(usage: str, principal: str | None, store: Mapping[str, str]) -> raw.Creds:
    with _reasons():
        name = None
        if principal is not None:
            name = raw.import_name(principal.encode(), gssapi.NameType.kerberos_principal)
        if not store:
            return raw.acquire_cred(name, mechs=[_KRB5], usage=usage).creds
        encoded = {key.encode(): value.encode() for key, value in store.items()}
        return raw.acquire_cred_from(encoded, name, mechs=[_KRB5], usage=usage).creds


def _text(name: raw.Name) -> str:
    return str(raw.display_name(name, False).name, "utf-8", "backslashreplace")


@contextmanager
def _reasons() -> Iterator[None]:
    """Raise the library's errors as KerberosError, with its most exact reason."""
    try:
        yield
    except raw.GSSError as error:
        statuses = [(error.min_code, False), (error.maj_code, True)]
        texts = [text for code, is_major in statuses for text in error.get_all_statuses(code, is_major)]
        reason = next((text for text in texts if text not in ("Success", "Unknown error")), "no reason is given")
        if not reason.isprintable():  # it can contain names from the token of a client that has proved nothing
            reason = repr(reason)
        raise KerberosError(reason, is_transient=error.min_code in _TRANSIENT) from None
