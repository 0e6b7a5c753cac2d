"""The settings of TLS of one listener, or of one client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Self

DEFAULT_PROTOCOLS = ("TLSv1.2", "TLSv1.3")
_LISTS = ("ssl.enabled.protocols", "ssl.cipher.suites")
DEFAULT_STORE_TYPE = "JKS"
"""Kafka's default type. A store of this type may also be PKCS12, as in Java."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """Kafka's `ssl.*` settings; a field is named like its setting, without `ssl.` and in snake case.

    None and empty values mean "not set". Secrets are not in the `repr`.
    """

    keystore_type: str = DEFAULT_STORE_TYPE
    keystore_location: str | None = None
    keystore_password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    keystore_key: str | None = field(default=None, repr=False)
    keystore_certificate_chain: str | None = field(default=None, repr=False)
    truststore_type: str = DEFAULT_STORE_TYPE
    truststore_location: str | None = None
    truststore_password: str | None = field(default=None, repr=False)
    truststore_certificates: str | None = field(default=None, repr=False)
    protocol: str = "TLSv1.3"
    enabled_protocols: tuple[str, ...] = DEFAULT_PROTOCOLS
    cipher_suites: tuple[str, ...] = ()
    endpoint_identification_algorithm: str = "https"
    provider: str | None = None
    keymanager_algorithm: str = "SunX509"
    trustmanager_algorithm: str = "PKIX"
    secure_random_implementation: str | None = None
    engine_factory_class: str | None = None

    @classmethod
    def of(cls, value: Callable[[str], Any]) -> Self:
        """Take every field from `value`, which returns the parsed value of one of Kafka's names (None: not set)."""
        given = {one.name: value(setting_name(one.name)) for one in fields(cls)}
        return cls(**{name: given_value for name, given_value in given.items() if given_value is not None})

    @classmethod
    def of_texts(cls, value: Callable[[str], Any]) -> Self:
        """Do the same with values that are not parsed: lists are texts with commas."""

        def parsed(name: str) -> Any:
            given = value(name)
            if given is None or name not in _LISTS:
                return given
            return tuple(one for part in given.split(",") if (one := part.strip()))

        return cls.of(parsed)


def setting_name(field_name: str) -> str:
    """Return Kafka's name of a field of `TlsSettings`."""
    return "ssl." + field_name.replace("_", ".")
