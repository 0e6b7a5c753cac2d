"""Every setting that Ottla says it acts on has a test that shows its effect.

The tests stand in test_setting_effects_*.py: rows of the table in ..._log.py, or single tests under `@shows(...)`.
"""

import ast
import importlib.util
from pathlib import Path

from broker.settings.catalog import ACTED_ON, TOPIC_ACTED_ON

HERE = Path(__file__).parent


def names_shown():
    """The settings under `@shows(...)` in the files beside this one, by test."""
    for path in sorted(HERE.glob("test_setting_effects_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for decorator in node.decorator_list:
                    if isinstance(decorator, ast.Call) and getattr(decorator.func, "id", "") == "shows":
                        yield from (argument.value for argument in decorator.args)


def names_in_the_table():
    spec = importlib.util.spec_from_file_location("log_effects", HERE / "test_setting_effects_log.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for row in module.EFFECTS:
        yield from row.broker
        yield from row.topic


def test_every_setting_with_an_effect_has_a_test_that_shows_it():
    tested = {*names_shown(), *names_in_the_table()}
    assert sorted(ACTED_ON - tested) == []
    assert sorted(TOPIC_ACTED_ON - tested) == []


def test_no_test_shows_a_setting_without_an_effect():
    assert sorted({*names_shown(), *names_in_the_table()} - ACTED_ON - TOPIC_ACTED_ON) == []
