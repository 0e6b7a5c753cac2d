"""`from ottla import …`: all of it is there, nothing is imported before it is used, and shadowing is told."""

import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from support.checkout import checkout_only

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", ottla.__all__)
def test_every_export_exists(name):
    value = getattr(ottla, name)
    assert getattr(ottla, name) is value
    assert name in dir(ottla)


def test_errors_of_the_broker_and_unknown_names():
    assert issubclass(ottla.errors.NotLeaderOrFollowerError, ottla.KafkaError)
    with pytest.raises(AttributeError, match="Consumer2"):
        _ = ottla.Consumer2


def test_brokers_for_tests_need_one_import():
    script = "import ottla; print(ottla.testing.broker().start)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert "BrokerThread" in done.stdout


def test_import_is_lazy(monkeypatch):
    monkeypatch.delenv("OTTLA_PERTURB", raising=False)  # it imports asyncio
    script = "import sys, ottla; print([name for name in ('client', 'broker', 'asyncio') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[]\n"


def test_a_folder_of_the_same_name_hides_nothing(tmp_path):
    """`ottla` is also the name of a clone; Python may start in the folder that contains it."""
    (tmp_path / "ottla").mkdir()
    script = "import ottla; print(ottla.__file__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout == f"{ottla.__file__}\n"


@checkout_only
@pytest.mark.parametrize("shadow", ["client.py", "storage/__init__.py"])
def test_a_foreign_package_of_the_same_name_is_told(tmp_path, shadow):
    (tmp_path / shadow).parent.mkdir(exist_ok=True)
    (tmp_path / shadow).write_text("")
    name = shadow.split(".")[0].split("/")[0]
    environment = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": ""}
    for command in (["-c", "from ottla import Producer"], ["-m", "ottla", "--version"]):
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=tmp_path, env=environment)
        assert done.returncode == 1
        last = done.stderr.strip().splitlines()[-1]
        assert str(tmp_path / shadow) in last
        assert f"package {name!r}" in last
    assert done.stderr.count("\n") == 1
