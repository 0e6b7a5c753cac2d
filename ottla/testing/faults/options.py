"""The options of a description as other programs give them: from JSON, and as words of a command line."""

from __future__ import annotations

import dataclasses
import difflib
import types
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from ottla.testing.faults.description import HELP, LIMITS, Description
from ottla.testing.faults.errors import FaultError
from ottla.testing.faults.verb import Verb

_TYPES: Mapping[type, tuple[type, ...]] = {bool: (bool,), int: (int,), float: (int, float), str: (str,)}
"""What JSON may have for a type."""
_NAMES: Mapping[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a string"}


class Option(NamedTuple):
    """One option of a verb."""

    name: str
    kind: type
    """bool, int, float or str."""
    choices: tuple[str, ...]
    """The strings that it may be; empty for any."""
    default: Any
    """dataclasses.MISSING if it is required."""
    help: str

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is dataclasses.MISSING

    @property
    def flag(self) -> str:
        """Its name on a command line."""
        return "--" + self.name.replace("_", "-")


def options_of(description: type[Description]) -> list[Option]:
    """Return the options of a kind of description; those that are required come first, the limits last."""
    hints = get_type_hints(description)
    found = []
    for field in dataclasses.fields(description):
        kind, choices = _kind(hints[field.name])
        found.append(Option(field.name, kind, choices, field.default, field.metadata[HELP]))
    return sorted(found, key=lambda one: (not one.is_required, one.name in LIMITS))


def _kind(hint: Any) -> tuple[type, tuple[str, ...]]:
    if get_origin(hint) in (Union, types.UnionType):
        (hint,) = (one for one in get_args(hint) if one is not type(None))
    if get_origin(hint) is Literal:
        return str, get_args(hint)
    return hint, ()


def from_json(verbs: Mapping[str, Verb], values: Any) -> Description:
    """Return the description in a JSON object: `verb`, and the options. Raises FaultError."""
    if not isinstance(values, dict) or not isinstance(values.get("verb"), str):
        raise FaultError('a fault is a JSON object with "verb" and the options of the verb')
    name = values["verb"]
    if name not in verbs:
        raise FaultError(f"verb={name}: unknown; the verbs are {', '.join(verbs)}")
    description = verbs[name].description
    options = {option.name: option for option in options_of(description)}
    given = {key: value for key, value in values.items() if key != "verb" and value is not None}
    for key, value in given.items():
        if key not in options:
            similar = difflib.get_close_matches(key, options, 1)
            hint = f"did you mean {similar[0]}?" if similar else f"its options are {', '.join(options)}"
            raise FaultError(f"{name} has no option {key}; {hint}")
        given[key] = _checked(options[key], value)
    missing = [option.name for option in options.values() if option.is_required and option.name not in given]
    if missing:
        raise FaultError(f"{name} needs {' and '.join(missing)}")
    return description(**given)


def _checked(option: Option, value: Any) -> Any:
    if not isinstance(value, _TYPES[option.kind]) or (isinstance(value, bool) and option.kind is not bool):
        raise FaultError(f"{option.name}={value!r}: must be {_NAMES[option.kind]}")
    if option.choices and value not in option.choices:
        raise FaultError(f"{option.name}={value}: must be {' or '.join(option.choices)}")
    try:
        if isinstance(value, str):
            value.encode()
        return option.kind(value)
    except OverflowError:
        raise FaultError(f"{option.name}: the number is too large") from None
    except UnicodeEncodeError:
        raise FaultError(f"{option.name}={value!r}: is no text in Unicode") from None


def given(description: Description) -> Iterator[tuple[Option, Any]]:
    """Yield the options of a description that differ from their defaults."""
    for option in options_of(type(description)):
        value = getattr(description, option.name)
        if value != option.default:
            yield option, value


def to_json(verb: str, description: Description) -> dict[str, Any]:
    """Return the JSON object of a description."""
    return {"verb": verb} | {option.name: value for option, value in given(description)}


def command_name(verb: str) -> str:
    """Return the name of a verb on the command line."""
    return verb.replace("_", "-")


def to_words(verb: str, description: Description) -> list[str]:
    """Return the words of a description on the command line, after `ottla faults`."""
    words = [command_name(verb)]
    for option, value in given(description):
        words.append(option.flag)
        if option.kind is not bool:
            words.append(f"{value:g}" if option.kind is float else str(value))
    return words
