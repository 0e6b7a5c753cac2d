"""The guides to the client say what is so: their scripts run and print what they should, their links lead somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.broker import BrokerProcess

ROOT = Path(__file__).resolve().parent.parent
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
    script = tmp_path / "script.py"
    script.write_text(body.replace("127.0.0.1:9092", broker.bootstrap))
    done = subprocess.run(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == next(printed for name, printed in PRINTED.items() if name in body)


def test_every_script_is_expected():
    assert len(SCRIPTS) == len(PRINTED)


@pytest.mark.parametrize("name", GUIDES)
def test_links_lead_somewhere(name):
    here = ROOT / name
    for target in re.findall(r"\]\(([^)#]+)\)", here.read_text()):
        if "://" not in target:
            assert (here.parent / target).exists(), target
