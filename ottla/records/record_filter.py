"""Which records `ottla consume` prints: regular expressions for key and value, and headers."""

import re
from collections.abc import Callable, Sequence

from client.consumer.fetched import ConsumerRecord
from ottla.command_line.failure import CommandError

Matches = Callable[[ConsumerRecord], bool]


def record_filter(value: str | None, key: str | None, headers: Sequence[str]) -> Matches | None:
    """Return a function that tells whether a record passes all filters; None without filters.

    `value` and `key` are regular expressions, which may match anywhere in the text; a null matches none. A header is
    "name=value", or "name" for any value. Bytes that are not UTF-8 are kept as surrogates, as in the arguments of a
    process. Raises CommandError for an expression that is not valid.
    """
    filters: list[Matches] = []
    if value is not None:
        in_value = compile_expression(value, "--grep")
        filters.append(lambda record: _found(in_value, record.value))
    if key is not None:
        in_key = compile_expression(key, "--key")
        filters.append(lambda record: _found(in_key, record.key))
    filters += [_header_filter(text) for text in headers]
    if not filters:
        return None
    return lambda record: all(passes(record) for passes in filters)


def compile_expression(text: str, option: str) -> re.Pattern[str]:
    """Compile a regular expression. Raises CommandError, which names the option."""
    try:
        return re.compile(text)
    except re.error as error:
        raise CommandError(f"{option} {text!r} is not a regular expression: {error}") from None


def _found(expression: re.Pattern[str], content: bytes | None) -> bool:
    return content is not None and expression.search(content.decode("utf-8", "surrogateescape")) is not None


def _header_filter(text: str) -> Matches:
    name, equals, value = text.partition("=")
    if not name:
        raise CommandError(f"--header {text!r} must be NAME=VALUE, or NAME for any value")
    wanted = value.encode("utf-8", "surrogateescape")
    if not equals:
        return lambda record: any(one == name for one, _ in record.headers)
    return lambda record: any(one == name and content == wanted for one, content in record.headers)
