"""Options that every client has: where the cluster is, and how to talk to it."""

import random as random_module
from collections.abc import Sequence
from dataclasses import dataclass

from client.options import check_range, parse_bootstrap_servers, refuse
from client.wire.backoff import RETRY_BACKOFF_MAX_MS, RETRY_BACKOFF_MS
from client.wire.connection_security import ConnectionSecurity
from client.wire.network import Network
from client.wire.security_options import PLAINTEXT, SecurityKeywords, SecurityOptions
from client.wire.setup_timeouts import SETUP_TIMEOUT_MAX_MS, SETUP_TIMEOUT_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions(SecurityOptions):
    """What `client.wire.cluster.Cluster` needs; the options of each client extend it.

    A field has the name of Kafka's setting with _ for dots: `retry_backoff_ms` is `retry.backoff.ms`. Fields in `_ms`
    are times in ms. `network` opens connections and `random` makes jitter; None: real ones.
    `connection_security` is for clients in a broker, whose TLS and login are those between brokers.

    Raises InvalidOptionError for a value that breaks a rule.
    """

    bootstrap_servers: str | Sequence[str] = "127.0.0.1:9092"
    client_id: str = "ottla"
    request_timeout_ms: int = 30_000
    socket_connection_setup_timeout_ms: int = SETUP_TIMEOUT_MS
    socket_connection_setup_timeout_max_ms: int = SETUP_TIMEOUT_MAX_MS
    retry_backoff_ms: int = RETRY_BACKOFF_MS
    retry_backoff_max_ms: int = RETRY_BACKOFF_MAX_MS
    metadata_max_age_ms: int = 300_000
    connections_max_idle_ms: int = 540_000
    allow_auto_create_topics: bool = False
    network: Network | None = None
    random: random_module.Random | None = None
    connection_security: ConnectionSecurity | None = None

    def __post_init__(self) -> None:
        SecurityOptions.__post_init__(self)
        if self.connection_security is not None and self.security_protocol != PLAINTEXT:
            raise refuse("security_protocol", self.security_protocol, "must not be given with connection_security")
        parse_bootstrap_servers(self.bootstrap_servers)
        check_range("request_timeout_ms", self.request_timeout_ms, 1)
        check_range("socket_connection_setup_timeout_ms", self.socket_connection_setup_timeout_ms, 1)
        check_range("socket_connection_setup_timeout_max_ms", self.socket_connection_setup_timeout_max_ms, 1)
        check_range("retry_backoff_ms", self.retry_backoff_ms, 0)
        check_range("retry_backoff_max_ms", self.retry_backoff_max_ms, 0)
        check_range("metadata_max_age_ms", self.metadata_max_age_ms, 1)
        check_range("connections_max_idle_ms", self.connections_max_idle_ms, 1)

    @property
    def request_timeout_s(self) -> float:
        """`request_timeout_ms` in seconds."""
        return self.request_timeout_ms / 1000


class ClusterKeywords(SecurityKeywords, total=False):
    """The fields of `ClusterOptions` as keyword arguments of a client."""

    bootstrap_servers: str | Sequence[str]
    client_id: str
    request_timeout_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int
    connections_max_idle_ms: int
    allow_auto_create_topics: bool
    network: Network | None
    random: random_module.Random | None
    connection_security: ConnectionSecurity | None
