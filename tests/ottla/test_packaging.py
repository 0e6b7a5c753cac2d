"""What `pip install .` installs: every folder that the source has, for the tests import from the checkout."""

import tomllib

from support.broker import ROOT
from support.checkout import checkout_only

FOLDERS = (
    "ottla",
    "broker",
    "replication",
    "storage",
    "registry",
    "protocol",
    "security",
    "client",
    "console",
    "spark_connector",
    "pyspark_ottla",
)


@checkout_only
def test_every_package_is_installed():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    files = (file for one in FOLDERS for file in (ROOT / one).rglob("*") if file.is_file())
    there = {".".join(file.parent.relative_to(ROOT).parts) for file in files if file.parent.name != "__pycache__"}
    assert sorted(listed) == sorted(there)
