"""What `pip install .` installs: every package that the source has, for its tests import from the checkout."""

import tomllib

from support.broker import ROOT

FOLDERS = ("ottla", "broker", "replication", "storage", "registry", "protocol", "client")


def test_every_package_is_installed():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    there = {
        ".".join(file.parent.relative_to(ROOT).parts) for one in FOLDERS for file in (ROOT / one).rglob("__init__.py")
    }
    assert sorted(listed) == sorted(there)
