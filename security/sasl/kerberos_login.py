"""The options of Krb5LoginModule in a JAAS line: which keytab or which ticket cache a login uses.

    com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab="/etc/kafka.keytab"
    principal="kafka/broker1.example.org@EXAMPLE.ORG";

Options that only make sense in Java (storeKey, doNotPrompt, refreshKrb5Config, …) are not used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from security.jaas import JaasError


class KerberosLogin(NamedTuple):
    """The source of a login's ticket: a ticket cache, else a keytab, else what the environment names."""

    keytab: str | None = None
    principal: str | None = None
    """With a keytab always set; with a ticket cache, the principal that the cache must have."""
    uses_ticket_cache: bool = False
    ticket_cache: str | None = None
    """None: that of the environment (KRB5CCNAME), or the user's default."""

    @classmethod
    def of_client(cls, options: Mapping[str, str]) -> KerberosLogin:
        """Return the login of a client. Raises JaasError."""
        uses_keytab, uses_cache = _is_true(options, "useKeyTab"), _is_true(options, "useTicketCache")
        if not uses_keytab and not uses_cache:
            raise JaasError(
                "it must contain useKeyTab=true or useTicketCache=true: there is nobody to ask for a password"
            )
        keytab = _keytab(options) if uses_keytab else None
        return cls(keytab, options.get("principal") or None, uses_cache, options.get("ticketCache") or None)

    @classmethod
    def of_server(cls, options: Mapping[str, str]) -> KerberosLogin:
        """Return the keytab and the principal of a server. Raises JaasError."""
        if not _is_true(options, "useKeyTab"):
            raise JaasError("it must contain useKeyTab=true: a listener needs the key of its principal")
        return cls(_keytab(options), options["principal"])


def service_name(options: Mapping[str, str], setting: str | None) -> str | None:
    """Return the service of brokers, of the option serviceName or of sasl.kerberos.service.name; None without both.

    Raises JaasError if they differ.
    """
    named = options.get("serviceName") or None
    if named is not None and setting and named != setting:
        raise JaasError("its serviceName differs from sasl.kerberos.service.name: set one of them")
    return named or setting or None


def _keytab(options: Mapping[str, str]) -> str:
    for name in ("keyTab", "principal"):
        if not options.get(name):
            raise JaasError(f"it must contain {name} because of useKeyTab=true")
    return options["keyTab"]


def _is_true(options: Mapping[str, str], name: str) -> bool:
    value = options.get(name, "false").lower()
    if value not in ("true", "false"):
        raise JaasError(f"its option {name} must be true or false")
    return value == "true"
