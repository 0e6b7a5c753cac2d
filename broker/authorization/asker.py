"""Who asks the authorizer: the client of a Kafka request, or of a request to the console."""

from __future__ import annotations

from typing import Protocol

from security.principal import Principal


class Client(Protocol):
    """Whose rights are asked for."""

    @property
    def principal(self) -> Principal:
        """The user."""

    @property
    def host(self) -> str:
        """The IP address."""


class Asker(Protocol):
    """One request, as decisions and the audit log use it. `RequestContext` is one."""

    audited: set[object] | None
    """The decisions of this request that the audit log has; None if it has none."""

    @property
    def connection(self) -> Client:
        """The client."""

    @property
    def principal(self) -> Principal:
        """The user."""

    @property
    def client_address(self) -> str:
        """The IP address."""

    @property
    def client_id(self) -> str | None:
        """What the client calls itself."""

    @property
    def listener_name(self) -> str:
        """Where the request has arrived."""
