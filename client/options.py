"""Checks of the options that a user passes; every error names the option, the value and the rule."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, TypeVar

from client.errors import InvalidOptionError
from protocol.classic_names import Reader, advice
from protocol.host_port import HostPort

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_PORT: Final = 9092
UNSET: Final = -1

_CA: Final = 'it is ssl_truststore_location here, with ssl_truststore_type="PEM"'
_CERTIFICATE: Final = (
    'it is ssl_keystore_location here, with ssl_keystore_type="PEM": one file with the key and its certificates'
)
# Options of other clients (aiokafka, kafka-python, confluent-kafka) that have another name or do not exist here.
_ELSEWHERE: Final = {
    "api_version": "versions are negotiated with every broker",
    "compression": "it is called compression_type here",
    "loop": "a client belongs to the event loop that it is started in",
    "max_batch_size": "it is called batch_size here",
    "max_in_flight": "it is called max_in_flight_requests_per_connection here",
    "retries": "a retriable error is retried until delivery_timeout_ms",
    "sasl_kerberos_domain_name": "a broker's principal has the host name that the client connects to",
    "sasl_kerberos_keytab": "it is keyTab in sasl_jaas_config here",
    "sasl_kerberos_principal": "it is principal in sasl_jaas_config here",
    "sasl_password": "it is called sasl_plain_password here",
    "sasl_username": "it is called sasl_plain_username here",
    "ssl_ca_location": _CA,
    "ssl_cafile": _CA,
    "ssl_certfile": _CERTIFICATE,
    "ssl_certificate_location": _CERTIFICATE,
    "ssl_check_hostname": 'it is ssl_endpoint_identification_algorithm="" here',
    "ssl_keyfile": _CERTIFICATE,
    "ssl_key_location": _CERTIFICATE,
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


def shows(options: type) -> Callable[[F], F]:
    """Decorate a constructor that takes `**keywords` for `options`, a dataclass with keyword-only fields.

    `help` and `inspect.signature` then show each field as a keyword argument with its type and default.
    """

    def decorate(constructor: F) -> F:
        self, *others = inspect.signature(constructor).parameters.values()
        topics = [one for one in others if one.kind in (one.POSITIONAL_OR_KEYWORD, one.VAR_POSITIONAL)]
        keywords = inspect.signature(options).parameters.values()
        constructor.__signature__ = inspect.Signature([self, *topics, *keywords])  # type: ignore[attr-defined]
        return constructor

    return decorate


def refuse_unknown(given: Iterable[str], client: type) -> None:
    """Raise InvalidOptionError for the first of these names that is no option of the constructor of `client`.

    The error names the option that another client's name, or a former name in Kafka (protocol.classic_names), stands
    for; else the most similar option.
    """
    parameters = inspect.signature(client).parameters.values()
    known = [parameter.name for parameter in parameters if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
    for option in given:
        if option not in known:
            raise InvalidOptionError(
                option, f"{client.__name__} has no option {option}: {_hint(option, client, known)}"
            )


def _hint(option: str, client: type, known: list[str]) -> str:
    """What to write instead of an unknown option."""
    dotless = option.replace(".", "_").replace("-", "_")
    near = [dotless] if dotless in known else difflib.get_close_matches(dotless, known, 1, 0.7)
    if dotless in _ELSEWHERE:
        return _ELSEWHERE[dotless]
    if (instead := advice(option, _reader(client), known)) is not None:
        return instead
    return f"did you mean {near[0]}?" if near else "known options: " + ", ".join(sorted(known))


def _reader(client: type) -> Reader:
    """Which of Kafka's clients the options of a class correspond to."""
    if client.__name__ == "ZooKeeperConsumer":
        return Reader.ZOOKEEPER_CONSUMER
    if client.__name__ == "Admin":
        return Reader.ADMIN
    return Reader.PRODUCER if client.__name__.endswith("Producer") else Reader.CONSUMER


def check_choice(option: str, value: object, choices: Sequence[object]) -> None:
    """Raise InvalidOptionError unless `value` is one of `choices`. The error shows 1 and "1" once, and not None."""
    if value not in choices:
        shown = dict.fromkeys(str(choice) for choice in choices if choice is not None)
        raise refuse(option, value, "must be one of " + ", ".join(shown))


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
