"""An editable installation: Spark must find the data source in it."""

import subprocess
import sys
import tomllib
import venv
import zipfile

from support.broker import ROOT
from support.checkout import checkout_only

BUILD = "from build_backend import backend; import sys; print(backend.build_editable(sys.argv[1]))"
FIND = "import pkgutil; print(*(one.name for one in pkgutil.iter_modules() if one.name.startswith('pyspark_')))"
"""Spark imports modules of such names, as pkgutil lists them (pyspark/sql/worker/lookup_data_sources.py)."""


@checkout_only
def test_spark_finds_the_data_source(tmp_path):
    """Build the editable wheel of a clone, and install it into an empty environment as pip does."""
    clone, environment, outside = (tmp_path / name for name in ("clone", "environment", "outside"))
    for folder in (clone, outside):
        folder.mkdir()
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    for name in {one.partition(".")[0] for one in packages} | {
        "build_backend",
        "pyproject.toml",
        "README.md",
        "LICENSE",
    }:
        (clone / name).symlink_to(ROOT / name)
    done = subprocess.run(
        [sys.executable, "-c", BUILD, tmp_path], cwd=clone, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    venv.create(environment)
    python = environment / "bin" / "python"
    site_packages = subprocess.check_output(
        [python, "-I", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], text=True
    ).strip()
    with zipfile.ZipFile(tmp_path / done.stdout.split()[-1]) as wheel:
        wheel.extractall(site_packages)
    found = subprocess.check_output([python, "-I", "-c", FIND], cwd=outside, text=True)
    assert found.split() == ["pyspark_ottla"]
