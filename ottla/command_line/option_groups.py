"""Options that several commands have in common, as one parameter.

    @dataclass(frozen=True)
    class Resources:
        topic: Annotated[list[str] | None, typer.Option("--topic")] = None
        cluster: Annotated[bool, typer.Option("--cluster")] = False

    @app.command("list")
    @with_option_groups
    def list_acls(resources: Resources, as_json: AsJson = False) -> None: ...

The command has an option for each field of the data class, in the place of the parameter.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints


def with_option_groups(function: Callable[..., None]) -> Callable[..., None]:
    """Return a function for Typer in which each parameter that is a data class is replaced by the fields of the class.

    Every field has a default value and the annotation of an option.
    """
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[Parameter] = []
    for name, parameter in signature(function).parameters.items():
        if name in groups:
            of_group = get_type_hints(groups[name], include_extras=True)
            parameters += (_keyword(one.name, one.default, of_group[one.name]) for one in fields(groups[name]))
        else:
            parameters.append(_keyword(name, parameter.default, hints[name]))

    @wraps(function)
    def command(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{one.name: values.pop(one.name) for one in fields(kind)})
        function(**values)

    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # what Typer reads
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _keyword(name: str, default: object, annotation: object) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
