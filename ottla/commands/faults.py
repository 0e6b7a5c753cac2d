"""`ottla faults`: faults of a running test cluster, through its control API. A subcommand for each verb."""

import inspect
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from typing import Annotated, Any, Final

import typer

from ottla.command_line.failure import CommandError
from ottla.command_line.options import AsJson
from ottla.command_line.output import counted, print_json, print_table
from ottla.testing.faults.options import Option, command_name, options_of, to_words
from ottla.testing.faults.verb import Verb
from ottla.testing.faults.verbs import VERBS

VARIABLE: Final = "OTTLA_CONTROL_URL"
_TIMEOUT_S: Final = 120.0

faults = typer.Typer(
    help="Inject faults into a test cluster: its brokers, their connections and the answers to requests.",
    no_args_is_help=True,
)

Control = Annotated[
    str | None,
    typer.Option("--control", metavar="URL", help=f"The control API of the cluster; by default ${VARIABLE}."),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(faults, name="faults")


@faults.command("list", epilog="Example:  ottla faults list")
def list_faults(control: Control = None, as_json: AsJson = False) -> None:
    """List the faults in effect, with what is left of them."""
    found = _ask(control, "GET", "/faults")["faults"]
    if as_json:
        print_json(found)
        return
    rows = [
        (
            one["id"],
            one["verb"],
            " ".join(f"{name}={value}" for name, value in one["options"].items()),
            one["uses"],
            one["left"],
            one["left_s"],
        )
        for one in found
    ]
    print_table(("id", "verb", "options", "uses", "left", "left s"), rows, long="options")


@faults.command(epilog="Example:  ottla faults heal 3")
def heal(
    fault: Annotated[int | None, typer.Argument(metavar="ID", help="The fault. By default all faults.")] = None,
    control: Control = None,
) -> None:
    """Heal one fault, or all."""
    healed = _ask(control, "DELETE", "/faults" if fault is None else f"/faults/{fault}")["healed"]
    typer.echo(f"{counted(len(healed), 'fault')} healed", err=True)


def _ask(control: str | None, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Send a request to the control API and return its answer. Raises CommandError."""
    base = control or os.environ.get(VARIABLE)
    if not base:
        raise CommandError(
            f"no control API: give --control URL or set {VARIABLE}; `ottla cluster --control-port` prints the URL,"
            " `ClusterThread.serve_control()` returns it"
        )
    data = None if body is None else json.dumps(body).encode()
    try:
        request = urllib.request.Request(
            base.rstrip("/") + path, data, {"Content-Type": "application/json"}, method=method
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # the API is on this machine
        with opener.open(request, timeout=_TIMEOUT_S) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            raise CommandError(_reason(error)) from None
    except (OSError, HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise CommandError(f"the control API at {base} does not answer: {reason}") from None


def _reason(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"this is no control API: HTTP {error.code}"


# -- a command for each verb -------------------------------------------------------------------------------------------


def _inject(verb: Verb, control: str | None, given: dict[str, Any]) -> None:
    told = _ask(control, "POST", "/faults", {"verb": verb.name} | given)
    done = " ".join(f"{name}={value}" for name, value in told["did"].items())
    typer.echo(" ".join(part for part in (f"{verb.name}:", "done", done) if part), err=True)
    if told["is_lasting"]:
        typer.echo(told["id"])


def _command(verb: Verb) -> Callable[..., None]:
    """Return the function of a subcommand, with a parameter for each option of the verb."""

    def run(control: str | None = None, **given: Any) -> None:
        _inject(verb, control, {name: value for name, value in given.items() if value is not None})

    parameters = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if option.is_required else option.default,
            annotation=_annotation(option),
        )
        for option in options_of(verb.description)
    ]
    parameters.append(inspect.Parameter("control", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Control))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = inspect.getdoc(verb.description)
    return run


def _annotation(option: Option) -> Any:
    text = option.help
    if option.choices:
        text += f" One of {', '.join(option.choices)}."
    kind = option.kind if option.is_required or option.default is not None else option.kind | None
    return Annotated[kind, typer.Option(option.flag, help=text)]


for _verb in VERBS.values():
    _example = " ".join(to_words(_verb.name, _verb.example))
    faults.command(command_name(_verb.name), epilog=f"Example:  ottla faults {_example}")(_command(_verb))
