"""Writes the sections of the verbs: `python -m ottla.testing.faults.docs docs/testing-faults.md`.

They are between two marks and are made from `VERBS`; the rest of the document does not change.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ottla.testing.faults.faults import Faults
from ottla.testing.faults.options import Option, given, options_of, to_json, to_words
from ottla.testing.faults.verb import Verb
from ottla.testing.faults.verbs import VERBS

BEGIN = f"<!-- verbs: made by python -m {__package__}.docs -->"
END = "<!-- /verbs -->"


def sections() -> Iterator[str]:
    """The lines of the sections, without marks."""
    for verb in VERBS.values():
        yield from ("", f"## {verb.name}", "", inspect.cleandoc(verb.description.__doc__ or ""), "")
        yield from ("```python", python_of(verb), "```", "")
        yield from ("```json", json.dumps(to_json(verb.name, verb.example)), "```", "")
        yield from ("```sh", command_of(verb), "```", "")
        yield from ("| Option | Type | Default | |", "|---|---|---|---|")
        for option in options_of(verb.description):
            yield f"| `{option.name}` | {_type(option)} | {_default(option)} | {option.help} |"
    yield ""


def python_of(verb: Verb) -> str:
    """Return the example as a call in Python."""
    parameters = inspect.signature(getattr(Faults, verb.name)).parameters
    arguments = []
    for option, value in given(verb.example):
        is_positional = parameters[option.name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        arguments.append(_literal(value) if is_positional else f"{option.name}={_literal(value)}")
    return f"fault = cluster.faults.{verb.name}({', '.join(arguments)})"


def command_of(verb: Verb) -> str:
    """Return the example as a command line."""
    return " ".join(["ottla faults", *to_words(verb.name, verb.example)])


def _literal(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else repr(value)


def _type(option: Option) -> str:
    if option.choices:
        return ", ".join(f"`{choice}`" for choice in option.choices)
    return f"`{option.kind.__name__}`"


def _default(option: Option) -> str:
    if option.is_required:
        return "required"
    return "" if option.default is None else f"`{json.dumps(option.default)}`"


def with_sections(text: str) -> str:
    """Return the document with new sections. Raises ValueError if the marks around them are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{BEGIN} and {END} must be in the document")
    return "\n".join([before + begin, *sections(), end + after])


def main(path: Path) -> None:
    """Replace the sections in the document at `path`."""
    path.write_text(with_sections(path.read_text()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
