"""Options that several commands have in common, as one parameter."""

import inspect
from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from ottla.command_line.option_groups import with_option_groups


@dataclass(frozen=True)
class Place:
    city: Annotated[str | None, typer.Option("--city", "-c", help="A city.")] = None
    abroad: Annotated[bool, typer.Option("--abroad")] = False


@pytest.fixture
def calls():
    return []


@pytest.fixture
def run(calls):
    app = typer.Typer()

    @app.command()
    @with_option_groups
    def travel(
        names: Annotated[list[str], typer.Argument(metavar="NAME")],
        place: Place,
        days: Annotated[int, typer.Option("--days")] = 3,
    ) -> None:
        """Send people somewhere."""
        calls.append((names, place, days))

    return lambda *words: CliRunner().invoke(app, words)


def test_the_parameter_has_the_values_of_its_options(run, calls):
    assert run("max", "felice", "-c", "Berlin", "--abroad", "--days", "2").exit_code == 0
    assert calls == [(["max", "felice"], Place("Berlin", True), 2)]


def test_options_that_are_not_given_have_the_defaults_of_the_fields(run, calls):
    assert run("max").exit_code == 0
    assert calls == [(["max"], Place(), 3)]


def test_the_help_has_each_option_in_the_place_of_the_parameter(run):
    text = run("--help").output
    assert "Send people somewhere." in text
    assert text.index("--city") < text.index("--abroad") < text.index("--days")
    assert "A city." in text
    assert "--place" not in text


def test_the_order_of_parameters_is_free():
    @with_option_groups
    def command(*, days: int = 3, place: Place) -> None:
        pass

    assert list(inspect.signature(command).parameters) == ["days", "city", "abroad"]
