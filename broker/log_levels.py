"""The levels of this process's loggers, as Kafka's resource BROKER_LOGGER shows and changes them (KIP-412).

Kafka's levels are FATAL, ERROR, WARN, INFO, DEBUG and TRACE. Python has no TRACE: it is the number 5. A logger is
named after its Python module; the name of a package is a logger for all modules below it. `root` is the root logger. A
change is lost when the process ends, as in Kafka. Errors have Kafka's wording, because tools print them.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from difflib import get_close_matches
from typing import Final

from broker.errors import RequestError
from broker.settings.dynamic import AlterOperation, Operation
from protocol.error_codes import ErrorCode

ROOT: Final = "root"
_CONTAINER: Final = "".join(f"{part}." for part in __name__.split(".")[:-2])
"""What the names of Ottla's loggers begin with: `ottla.` in a wheel, nothing in a checkout."""
TRACE: Final = 5
LEVELS: Final = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": TRACE,
}
logging.addLevelName(TRACE, "TRACE")


def level_number(name: str) -> int:
    """Return Python's number for a name of Kafka's levels, in any case."""
    return LEVELS[name.upper()]


def logger_levels() -> dict[str, str]:
    """Return the effective level of every logger of this process, by name; packages of loggers are included."""
    names = {ROOT}
    for name in list(logging.root.manager.loggerDict):
        parts = name.split(".")
        names.update(".".join(parts[:end]) for end in range(1, len(parts) + 1))
    return {name: _level_name(_effective_level(name)) for name in sorted(names)}


def alter_levels(operations: Iterable[Operation], *, validate_only: bool) -> None:
    """Set and reset levels. Raises RequestError, without a change, if an operation is not allowed.

    A logger that is reset has the level of its parent.
    """
    known = logger_levels()
    operations = [(full_name(name, known), operation, level) for name, operation, level in operations]
    for name, operation, level in operations:
        _check(name, operation, level, known)
    if validate_only:
        return
    for name, operation, level in operations:
        number = logging.NOTSET if operation == AlterOperation.DELETE or level is None else LEVELS[level]
        logging.getLogger(name).setLevel(number)


def full_name(name: str, known: Collection[str]) -> str:
    """Return the known name of a logger that may be named without `ottla.`; return other names as they are."""
    return f"{_CONTAINER}{name}" if name not in known and f"{_CONTAINER}{name}" in known else name


def _check(name: str, operation: int, level: str | None, known: Iterable[str]) -> None:
    if operation in (AlterOperation.APPEND, AlterOperation.SUBTRACT):
        which = AlterOperation(operation).name
        raise RequestError(
            ErrorCode.INVALID_REQUEST, f"{which} operation is not allowed for the BROKER_LOGGER resource"
        )
    if operation not in (AlterOperation.SET, AlterOperation.DELETE):
        why = f"Unknown operation type {operation} is not allowed for the BROKER_LOGGER resource"
        raise RequestError(ErrorCode.INVALID_REQUEST, why)
    if name not in known:
        raise RequestError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!{_hint(name, known)}")
    if operation == AlterOperation.DELETE:
        if name == ROOT:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed")
    elif level is None:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"{name} needs a level")
    elif level not in LEVELS:
        why = f"Cannot set the log level of {name} to {level} as it is not a supported log level. Valid log levels are "
        raise RequestError(ErrorCode.INVALID_CONFIG, why + ", ".join(LEVELS))


def _hint(name: str, known: Iterable[str]) -> str:
    if name.startswith(("kafka.", "org.apache.")):
        return " Ottla's loggers are named after its Python modules; DescribeConfigs lists them"
    close = get_close_matches(name, list(known), 1, 0.7)
    return f" The nearest is {close[0]}" if close else ""


def _effective_level(name: str) -> int:
    """Return the level without creating a logger for a package that has none."""
    parts = name.split(".") if name != ROOT else []
    for end in range(len(parts), 0, -1):
        found = logging.root.manager.loggerDict.get(".".join(parts[:end]))
        if isinstance(found, logging.Logger) and found.level:
            return found.level
    return logging.root.level


def _level_name(number: int) -> str:
    """Return the name of the most severe of Kafka's levels that is not above this number."""
    return next((name for name, known in LEVELS.items() if known <= number), "TRACE")
