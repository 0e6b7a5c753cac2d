"""The backend that pip calls: setuptools' hooks, of which `build_wheel` is another one."""

import zipfile

import pytest
from setuptools import build_meta

from build_backend import backend

PLAIN = ("build_editable", "build_sdist", "get_requires_for_build_wheel", "prepare_metadata_for_build_wheel")

PROJECT = """
[project]
name = "ottla"
version = "1.0"

[tool.setuptools]
packages = ["ottla", "storage"]
"""


@pytest.mark.parametrize("hook", PLAIN)
def test_the_other_hooks_are_those_of_setuptools(hook):
    assert getattr(backend, hook) == getattr(build_meta, hook)


@pytest.mark.filterwarnings("ignore::Warning:setuptools")
def test_a_wheel_is_built_without_what_an_earlier_build_left(tmp_path, monkeypatch):
    """A small project that is laid out as this one. Its `build` folder has a module that was deleted since."""
    project = tmp_path / "project"
    for name, text in {
        "pyproject.toml": PROJECT,
        "ottla/__init__.py": "",
        "storage/__init__.py": "",
        "storage/log.py": "from storage import index\n",
        "build/lib/storage/deleted.py": "",
    }.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    monkeypatch.chdir(project)
    made = backend.build_wheel(str(tmp_path), {"--build-option": "--quiet"})
    with zipfile.ZipFile(tmp_path / made) as archive:
        names = archive.namelist()
        assert archive.read("ottla/storage/log.py") == b"from ottla.storage import index\n"
    assert [name for name in names if ".dist-info" not in name] == [
        "ottla/__init__.py",
        "ottla/storage/__init__.py",
        "ottla/storage/log.py",
    ]
    assert [path.name for path in (project / "build").rglob("*.py")] == ["deleted.py"]
