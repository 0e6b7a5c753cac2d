"""The files that make, the image and the forge read say the same as the project."""

import re
import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from ruamel.yaml import YAML

from support.broker import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def requirements():
    optional = (text for texts in PROJECT["optional-dependencies"].values() for text in texts)
    found = (Requirement(text) for text in (*PROJECT["dependencies"], *optional))
    return {one.name: one for one in found if one.name != PROJECT["name"]}


def pinned():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = (line.partition(";")[0].strip().split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pins}


@pytest.mark.parametrize("name", sorted(requirements()))
def test_constraints_pin_a_version_that_the_package_accepts(name):
    requirement = requirements()[name]
    assert requirement.specifier.contains(pinned()[canonicalize_name(name)])


def test_an_interpreter_that_is_too_old_is_refused_before_an_environment_is_made(tmp_path):
    old = tmp_path / "python3.9"
    claims = "import sys; sys.version_info = (3, 9, 18); sys.version = '3.9.18 (main)'; exec(sys.argv[1])"
    old.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{claims}" "$2"\n')
    old.chmod(0o755)
    made = subprocess.run(
        ["make", "setup-run", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode != 0
    assert f"Ottla needs Python 3.11 or newer, {old} is 3.9.18." in made.stderr
    assert not (tmp_path / "venv").exists()


def test_make_lists_its_targets():
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (phony,) = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    targets = [name for name in phony.split() if not name.startswith("setup")]
    assert re.findall(r"^make (\S+)  +\S", listed, flags=re.MULTILINE) == targets


def test_pre_commit_runs_what_make_lint_runs():
    (hooks,) = (repository["hooks"] for repository in YAML(typ="safe").load(ROOT / ".pre-commit-config.yaml")["repos"])
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)[1]
    commands = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()]
    assert [hook["entry"] for hook in hooks] == commands


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", ".github/workflows/*.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/[!c]*.yml"),
        ("github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
    ],
)
def test_files_of_the_forge_fit_their_schemas(schema, files):
    paths = [str(path) for path in ROOT.glob(files)]
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *paths]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert paths
    assert checked.returncode == 0, checked.stdout


def test_the_forge_checks_every_python_that_the_package_names():
    jobs = YAML(typ="safe").load(ROOT / ".github/workflows/ci.yml")["jobs"]
    named = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert jobs["check"]["strategy"]["matrix"]["python"] == named
