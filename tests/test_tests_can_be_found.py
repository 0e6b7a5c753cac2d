"""Whoever changes a file finds its tests, by name or in docs/tests.md, and pytest alone runs any of them."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from support.broker import ROOT
from support.deadlines import DEADLINE_S

TABLE = ROOT / "docs" / "tests.md"
ROW = re.compile(r"^\| (`.*`) \| (`.*`) \|$", flags=re.MULTILINE)


def sources(root):
    """The files of the installed packages that hold code."""
    packages = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    files = (file for package in packages for file in (root / package.replace(".", "/")).glob("*.py"))
    return sorted(str(file.relative_to(root)) for file in files if file.name != "__init__.py")


def rows(text):
    """(patterns of sources, patterns of tests) of each row of the tables."""
    return [tuple(re.findall("`([^`]*)`", cell) for cell in row) for row in ROW.findall(text)]


def has_test_of_its_name(root, source):
    """Is there a test of this name in the same folder below tests/, or in one above it?"""
    path = Path(source)
    folders = [root / "tests" / folder for folder in path.parents if folder != Path()]
    return any((folder / f"test_{path.name}").exists() for folder in folders)


def complaints(root, table):
    """What is wrong, one sentence each."""
    listed = set()
    for patterns, tests in rows(table):
        for pattern in patterns:
            found = [str(file.relative_to(root)) for file in root.glob(pattern)]
            listed.update(found)
            if not found:
                yield f"docs/tests.md: there is no source file {pattern}"
        for pattern in tests:
            if not any(file.name.startswith("test_") for file in root.glob(pattern)):
                yield f"docs/tests.md: there is no test file {pattern}"
    for source in sources(root):
        if source not in listed and not has_test_of_its_name(root, source):
            path = Path(source)
            yield f"{source}: there is no tests/{path.parent}/test_{path.name}, and no row of docs/tests.md names it"


def test_every_file_has_a_test_of_its_name_or_a_row():
    assert list(complaints(ROOT, TABLE.read_text())) == []


def test_files_without_a_test_and_stale_rows_are_reported(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.setuptools]\npackages = ["broker", "broker.apis"]')
    for name in ("broker/__init__.py", "broker/named.py", "broker/apis/fetch.py", "broker/a_one.py", "broker/b.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "tests" / "broker").mkdir(parents=True)
    for name in ("named", "fetch", "other"):
        (tmp_path / "tests" / "broker" / f"test_{name}.py").touch()
    table = (
        "| Source | Tests |\n|---|---|\n"
        "| `broker/a_*.py` | `tests/broker/test_o*.py` |\n"
        "| `broker/gone.py`, `broker/named.py` | `tests/broker/test_named.py`, `tests/broker/test_gone.py` |\n"
    )
    assert list(complaints(tmp_path, table)) == [
        "docs/tests.md: there is no source file broker/gone.py",
        "docs/tests.md: there is no test file tests/broker/test_gone.py",
        "broker/b.py: there is no tests/broker/test_b.py, and no row of docs/tests.md names it",
    ]


def test_pytest_finds_the_packages_without_the_checkout_on_its_path():
    """As `pytest tests/broker`, where `python -m pytest` would put the working directory on the path."""
    command = [sys.executable, "-P", "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    tests = "broker/controller/test_channel.py"
    done = subprocess.run(
        [*command, tests], cwd=ROOT / "tests", capture_output=True, text=True, timeout=2 * DEADLINE_S, check=False
    )
    assert done.returncode == 0, done.stdout
