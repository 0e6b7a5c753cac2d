"""The guides to the client say what is so: their scripts run and print what they should, their links lead somewhere."""

import re

import pytest

from support.broker import ROOT, BrokerProcess
from support.doc_scripts import dead_links, run_script

GUIDES = ("docs/listener-container.md", "docs/large-messages.md", "examples/mail_alerts/README.md")
PRINTED = {
    "ListenerContainer": "b'gregor' b'two beetles'\n",
    "ChunkingConsumer": "b'plan' 4000000\n",
    "ClaimCheckConsumer": "b'files' 4000000\n",
}
SCRIPTS = [
    pytest.param(body, id=f"{name} {number}")
    for name in GUIDES
    for number, body in enumerate(re.findall(r"```python\n(.*?)```", (ROOT / name).read_text(), re.DOTALL))
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with BrokerProcess(tmp_path_factory.mktemp("guides") / "data") as process:
        yield process


@pytest.mark.parametrize("body", SCRIPTS)
def test_scripts_run(body, broker, tmp_path):
    expected = next(printed for name, printed in PRINTED.items() if name in body)
    assert run_script(body, broker.bootstrap, tmp_path) == expected


def test_every_script_is_expected():
    assert len(SCRIPTS) == len(PRINTED)


@pytest.mark.parametrize("name", GUIDES)
def test_links_have_existing_targets(name):
    assert dead_links(ROOT / name) == []
