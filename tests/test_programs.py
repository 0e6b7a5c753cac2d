"""Programs that tests need: found on PATH, or the test is skipped and the summary says so in a line; in CI it fails."""

import os
import subprocess
import sys

import pytest

from support.broker import ROOT
from support.deadlines import DEADLINE_S
from support.programs import go_with, need_chromium, need_kcat, need_prometheus, need_promtool


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Makes programs in the one directory of PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("OTTLA_CHROMIUM", raising=False)

    def make(name):
        program = tmp_path / name
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        return str(program)

    return make


@pytest.mark.parametrize("name", ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"])
def test_a_chromium_is_found_by_each_of_its_names(programs, name):
    program = programs(name)
    assert need_chromium() == program


def test_the_chromium_of_the_environment_precedes_others(programs, monkeypatch, tmp_path):
    programs("chromium")
    own = programs("my-chromium")
    monkeypatch.setenv("OTTLA_CHROMIUM", own)
    assert need_chromium() == own
    monkeypatch.setenv("OTTLA_CHROMIUM", str(tmp_path / "none"))
    with pytest.raises(pytest.fail.Exception, match="none is not a program"):
        need_chromium()


def test_kcat_is_found_on_the_path(programs):
    program = programs("kcat")
    assert need_kcat() == program


@pytest.mark.parametrize(
    ("need", "package"),
    [
        (need_chromium, "chromium-headless-shell"),
        (need_kcat, "kcat"),
        (need_prometheus, "prometheus"),
        (need_promtool, "prometheus"),
        (lambda: go_with(ROOT), "golang-go"),
        (lambda: go_with(ROOT / "no library"), "golang-go"),
    ],
)
def test_without_its_program_a_test_is_skipped_and_in_ci_it_fails(programs, monkeypatch, need, package):
    with pytest.raises(pytest.skip.Exception, match=f"install Debian's `{package}`"):
        need()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=f"install Debian's `{package}`"):
        need()


def test_the_summary_has_one_line_for_each_reason(tmp_path):
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    for number in range(2):
        (tmp_path / f"test_{number}.py").write_text(
            "import pytest\n"
            "from support.programs import need_chromium\n"
            "@pytest.mark.parametrize('number', range(3))\n"
            "def test_page(number):\n"
            "    need_chromium()\n"
            "@pytest.mark.skip(reason='another reason')\n"
            "def test_other():\n"
            "    pass\n"
        )
    command = [sys.executable, "-m", "pytest", "-q", "-c", str(ROOT / "pyproject.toml"), f"--rootdir={ROOT}"]
    environment = {name: value for name, value in os.environ.items() if name not in ("CI", "OTTLA_CHROMIUM")}
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-n", "2", str(tmp_path)],
        cwd=ROOT,
        env=environment | {"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE_S,
        check=False,
    )
    summary = [line for line in done.stdout.splitlines() if "skipped" in line.lower()]
    assert sorted(summary[:-1]) == [
        "2 skipped: another reason",
        "6 skipped: browser tests: no Chromium found; install Debian's `chromium-headless-shell` or set OTTLA_CHROMIUM",
    ], done.stdout
    assert summary[-1].startswith("8 skipped in "), done.stdout
