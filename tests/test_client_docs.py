"""docs/client.md says what is so: its scripts run, each for itself, and print what stands below them; its tables of
options are complete.
"""

import inspect
import re

import pytest

import ottla.errors
from client.consumer.consumer import Consumer
from client.producer.producer import Producer
from support.broker import ROOT, BrokerProcess
from support.doc_scripts import SECURITY_OPTIONS, dead_links, run_script

PATH = ROOT / "docs" / "client.md"
TEXT = PATH.read_text()
SCRIPTS = [
    pytest.param(found[1], found[2], id=f"line {TEXT[: found.start()].count(chr(10)) + 1}")
    for found in re.finditer(r"```python\n(.*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL)
]
FOR_TESTS = {"network", "random", "now_ms", "connection_security"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with BrokerProcess(tmp_path_factory.mktemp("docs") / "data") as process:
        yield process


@pytest.mark.parametrize(("body", "printed"), SCRIPTS)
def test_scripts_print_the_documented_output(body, printed, broker, tmp_path):
    assert run_script(body, broker.bootstrap, tmp_path) == printed


def test_no_script_is_left_out():
    assert len(SCRIPTS) == TEXT.count("```python\n")


@pytest.mark.parametrize(("made", "heading"), [(Producer, "Producer"), (Consumer, "Consumer")])
def test_every_option_is_in_the_table_with_its_default(made, heading):
    section = re.search(rf"\n## {heading}\n(.*?)(?=\n## |\Z)", TEXT, re.DOTALL)[1]
    table = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", section, re.M))
    options = {
        name: str(parameter.default)
        for name, parameter in inspect.signature(made).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and name not in FOR_TESTS | SECURITY_OPTIONS
    }
    assert table == options


def test_every_security_option_is_in_docs_security():
    text = (ROOT / "docs" / "security.md").read_text()
    assert [name for name in SECURITY_OPTIONS if f"`{name}`" not in text] == []


def test_errors_that_are_named_exist():
    for name in set(re.findall(r"`(\w+Error)`", TEXT)):
        assert hasattr(ottla.errors, name), name


def test_links_have_existing_targets():
    assert dead_links(PATH) == []
