"""The wheel is what the other tests of `make test-wheel` test. In a checkout, these tests are skipped."""

import os
import pickle
import subprocess
import sys
import sysconfig
from importlib.metadata import distribution, packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

import ottla
from client.topic_partition import TopicPartition
from support.broker import ROOT
from support.checkout import wheel_only

PACKAGES = (
    "broker",
    "client",
    "console",
    "protocol",
    "registry",
    "replication",
    "security",
    "spark_connector",
    "storage",
)
pytestmark = wheel_only


def test_ottla_comes_from_the_environment():
    assert Path(ottla.__file__).parent.parent == Path(sysconfig.get_path("purelib"))


def test_no_checkout_is_on_the_path():
    with_us = {entry for entry in sys.path if (Path(entry) / "ottla" / "__init__.py").exists()}
    assert with_us == {sysconfig.get_path("purelib")}


@pytest.mark.parametrize("package", PACKAGES)
def test_packages_are_in_ottla_only(package):
    assert find_spec(f"{ottla.__name__}.{package}") is not None
    outside = find_spec(package)
    assert outside is None or outside.origin is None or Path(outside.origin).is_relative_to(ROOT)


def test_two_names_are_added_to_site_packages():
    files = distribution("ottla").files
    first = {file.parts[0] for file in files}
    metadata = {name for name in first if name.endswith(".dist-info")}
    assert first - metadata - {".."} == {"ottla", "pyspark_ottla"}
    assert [file.name for file in files if file.parts[0] == ".."] == ["ottla"]  # the command
    assert sorted(name for name, owners in packages_distributions().items() if "ottla" in owners) == [
        "ottla",
        "pyspark_ottla",
    ]


def test_a_working_directory_with_modules_of_the_same_names(tmp_path):
    """As the working directory of all these tests, but without pytest: a script, the command, a module."""
    for name in PACKAGES:
        (tmp_path / f"{name}.py").write_text("raise ImportError('not a part of Ottla')")
    (tmp_path / "ottla").mkdir()  # a clone
    script = "import ottla; print(ottla.Producer.__module__, ottla.Broker.__module__, ottla.errors.__name__)"
    commands = {
        "ottla.client.producer.producer ottla.broker.broker ottla.errors\n": [sys.executable, "-c", script],
        f"ottla {ottla.__version__}\n": [Path(sys.executable).parent / "ottla", "--version"],
        "Usage: ottla": [sys.executable, "-m", "ottla", "--help"],
        "usage: python -m ottla.broker": [sys.executable, "-m", "ottla.broker", "--help"],
    }
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for expected, command in commands.items():
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert expected in done.stdout, done.stderr


def test_pickles_name_modules_of_the_wheel():
    pickled = pickle.dumps(TopicPartition("orders", 1))
    assert b"ottla.client.topic_partition" in pickled
    assert pickle.loads(pickled) == TopicPartition("orders", 1)


def test_every_module_can_be_imported():
    """In one process, which shows each that cannot. gssapi is of no extra that tests have: it needs C headers."""
    home = Path(ottla.__file__).parent
    names = [".".join(file.relative_to(home.parent).with_suffix("").parts) for file in sorted(home.rglob("*.py"))]
    modules = [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]
    script = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n"
        "        importlib.import_module(name)\n"
        "    except Exception as error:\n"
        "        if getattr(error, 'name', '') != 'gssapi':\n"
        "            print(name, repr(error))\n"
    )
    command = [sys.executable, "-c", script, *modules]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
