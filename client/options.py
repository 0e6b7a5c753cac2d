"""Checks of the options that a user passes; every error names the option, the value and the rule."""

import difflib
import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from client.errors import InvalidOptionError
from protocol.host_port import HostPort

if TYPE_CHECKING:
    from protocol.classic_names import Reader

DEFAULT_PORT: Final = 9092
UNSET: Final = -1

_SECURITY: Final = "TLS and SASL are not supported yet"
# Options of other clients (aiokafka, kafka-python, confluent-kafka) that have another name or do not exist here.
_ELSEWHERE: Final = {
    "api_version": "versions are negotiated with every broker",
    "compression": "it is called compression_type here",
    "loop": "a client belongs to the event loop that it is started in",
    "max_batch_size": "it is called batch_size here",
    "max_in_flight": "it is called max_in_flight_requests_per_connection here",
    "retries": "a retriable error is retried until delivery_timeout_ms",
    "sasl_mechanism": _SECURITY,
    "sasl_plain_password": _SECURITY,
    "sasl_plain_username": _SECURITY,
    "security_protocol": _SECURITY,
    "ssl_context": _SECURITY,
}


def refuse(option: str, value: object, rule: str) -> InvalidOptionError:
    """Make, but do not raise, the error for a bad value."""
    return InvalidOptionError(option, f"{option}={value!r}: {rule}")


def check_range(option: str, value: float, low: float, high: float | None = None) -> None:
    """Raise InvalidOptionError unless `value` is a number from `low` to `high` (None: no upper bound)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refuse(option, value, "must be a number")
    if value < low or (high is not None and value > high):
        raise refuse(option, value, f"must be at least {low}" if high is None else f"must be from {low} to {high}")


def refuse_unknown(unknown: Mapping[str, object], client: type) -> None:
    """Raise InvalidOptionError for the first of the options, which the constructor of `client` does not have.

    If another client has the option, or if an old version of Kafka had it (protocol.classic_names), the error names
    its equivalent here; otherwise it suggests the most similar option.
    """
    from protocol.classic_names import advice  # only needed for the error

    reader = _reader(client)
    for option in unknown:
        dotless = option.replace(".", "_").replace("-", "_")
        known = [
            name
            for name, parameter in inspect.signature(client).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        ]
        near = [dotless] if dotless in known else difflib.get_close_matches(dotless, known, 1, 0.7)
        if dotless in _ELSEWHERE:
            hint = _ELSEWHERE[dotless]
        elif dotless.startswith(("ssl_", "sasl_")):
            hint = _SECURITY
        elif (instead := advice(option, reader, known)) is not None:
            hint = instead
        elif near:
            hint = f"did you mean {near[0]}?"
        else:
            hint = "known are " + ", ".join(sorted(known))
        raise InvalidOptionError(option, f"{client.__name__} has no option {option}: {hint}")


def _reader(client: type) -> "Reader":
    """Which of Kafka's clients the options of a class correspond to."""
    from protocol.classic_names import Reader

    if client.__name__ == "ZooKeeperConsumer":
        return Reader.ZOOKEEPER_CONSUMER
    if client.__name__ == "Admin":
        return Reader.ADMIN
    return Reader.PRODUCER if client.__name__.endswith("Producer") else Reader.CONSUMER


def check_choice(option: str, value: object, choices: Sequence[object]) -> None:
    """Raise InvalidOptionError unless `value` is one of `choices`."""
    if value not in choices:
        raise refuse(option, value, "must be one of " + ", ".join(map(str, choices)))


def parse_bootstrap_servers(value: str | Sequence[str]) -> list[HostPort]:
    """Addresses of "host:port,host:port" or of a sequence of "host:port"; the default port is 9092.

    An IPv6 address needs brackets: "[::1]:9092". Raises InvalidOptionError.
    """
    option = "bootstrap_servers"
    texts = value.split(",") if isinstance(value, str) else list(value)
    servers = []
    for text in (part.strip() for part in texts):
        if not text:
            continue
        host, port = _split_host(text)
        if not host:
            raise refuse(option, text, "must be host:port")
        if not port:
            port = str(DEFAULT_PORT)
        if not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise refuse(option, text, "the port must be a number from 1 to 65535")
        servers.append(HostPort(host, int(port)))
    if not servers:
        raise refuse(option, value, "must name at least one host:port")
    return servers


def _split_host(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":")
    host, _, port = text.partition(":")
    return host, port
