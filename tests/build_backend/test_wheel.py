"""A wheel before and after its packages are moved into `ottla`; all sources of the project can be moved."""

import base64
import csv
import hashlib
import subprocess
import sys
import zipfile

import minify
import pytest

from build_backend.assets import AssetError
from build_backend.wheel import WheelError, relocate_wheel
from support.broker import ROOT
from support.checkout import checkout_only
from support.wheel_checkout import packages, relocation

METADATA = "ottla-1.0.dist-info"
FILES = {
    "ottla/__init__.py": "",
    "ottla/cli.py": "import storage.errors\n\ndef main():\n    print(storage.errors.__name__)\n",
    "ottla/public.pyi": "from storage.errors import StorageError as StorageError\n",
    "storage/__init__.py": '"""Logs: `storage.errors`."""\n',
    "storage/errors.py": "class StorageError(Exception): ...\n",
    "storage/py.typed": "",
    "pyspark_ottla/__init__.py": "from storage import errors\n",
    f"{METADATA}/METADATA": "Name: ottla\n\nIt has storage.errors.\n",
    f"{METADATA}/entry_points.txt": "[console_scripts]\nottla = ottla.cli:main\nlogs = storage.errors:StorageError\n",
    f"{METADATA}/top_level.txt": "ottla\npyspark_ottla\nstorage\n",
    f"{METADATA}/RECORD": "stale",
}


def wheel(path, **more):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in (FILES | more).items():
            archive.writestr(zipfile.ZipInfo(name, (2026, 1, 2, 3, 4, 6)), text)
    return path


@pytest.fixture
def relocated(tmp_path):
    target = tmp_path / "relocated.whl"
    relocate_wheel(wheel(tmp_path / "plain.whl"), target)
    return target


def test_the_files_are_in_ottla(relocated):
    with zipfile.ZipFile(relocated) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
        assert {info.date_time for info in archive.infolist()} == {(2026, 1, 2, 3, 4, 6)}
    record = texts.pop(f"{METADATA}/RECORD")
    assert texts == {
        "ottla/__init__.py": "",
        "ottla/cli.py": (
            "import ottla.storage.errors, ottla.storage as storage\n\ndef main():\n    print(storage.errors.__name__)\n"
        ),
        "ottla/public.pyi": "from ottla.storage.errors import StorageError as StorageError\n",
        "ottla/storage/__init__.py": '"""Logs: `ottla.storage.errors`."""\n',
        "ottla/storage/errors.py": "class StorageError(Exception): ...\n",
        "ottla/storage/py.typed": "",
        "pyspark_ottla/__init__.py": "from ottla.storage import errors\n",
        f"{METADATA}/METADATA": "Name: ottla\n\nIt has storage.errors.\n",
        f"{METADATA}/entry_points.txt": (
            "[console_scripts]\nottla = ottla.cli:main\nlogs = ottla.storage.errors:StorageError\n"
        ),
        f"{METADATA}/top_level.txt": "ottla\npyspark_ottla\n",
    }
    rows = {name: (digest, size) for name, digest, size in csv.reader(record.splitlines())}
    assert rows.pop(f"{METADATA}/RECORD") == ("", "")
    for name, text in texts.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        assert rows.pop(name) == (f"sha256={digest}", str(len(text.encode())))
    assert rows == {}


def test_the_result_is_imported_beside_modules_of_the_same_names(relocated, tmp_path):
    (tmp_path / "storage.py").write_text("raise ImportError")
    environment = {"PYTHONPATH": str(relocated)}
    command = [sys.executable, "-c", "import ottla.cli, pyspark_ottla; ottla.cli.main()"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("ottla.storage.errors\n", "")


def test_the_same_wheel_gives_the_same_bytes(relocated, tmp_path):
    relocate_wheel(tmp_path / "plain.whl", tmp_path / "again.whl")
    assert (tmp_path / "again.whl").read_bytes() == relocated.read_bytes()


def test_two_files_for_one_path_are_refused(tmp_path):
    plain = wheel(tmp_path / "plain.whl", **{"ottla/storage/errors.py": ""})
    with pytest.raises(WheelError, match=r"storage/errors\.py would replace ottla/storage/errors\.py"):
        relocate_wheel(plain, tmp_path / "relocated.whl")


def test_scripts_and_styles_are_smaller(tmp_path):
    script = "// Adds.\nexport function sum(first, second) {\n  return first + second;\n}\n"
    files = {"storage/static/sum.js": script, "storage/static/sum.css": "a {\n  color: red;\n}\n"}
    relocate_wheel(wheel(tmp_path / "plain.whl", **files), tmp_path / "relocated.whl")
    with zipfile.ZipFile(tmp_path / "relocated.whl") as archive:
        assert archive.read("ottla/storage/static/sum.js") == b"export function sum(e,t){return e+t}"
        assert archive.read("ottla/storage/static/sum.css") == b"a{color:red}"


def test_a_script_that_cannot_be_read_is_named(tmp_path):
    plain = wheel(tmp_path / "plain.whl", **{"storage/static/broken.js": "const = 1;"})
    with pytest.raises(AssetError, match=r"storage/static/broken\.js: unexpected ="):
        relocate_wheel(plain, tmp_path / "relocated.whl")


def test_scripts_stay_as_they_are_without_the_library(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, minify.__name__, None)
    script = "// Nothing.\n"
    relocate_wheel(wheel(tmp_path / "plain.whl", **{"storage/a.js": script}), tmp_path / "relocated.whl")
    with zipfile.ZipFile(tmp_path / "relocated.whl") as archive:
        assert archive.read("ottla/storage/a.js") == script.encode()


@checkout_only
def test_every_source_of_the_project_can_be_moved():
    """`make test-wheel` moves them; this finds quickly a name that cannot be rewritten."""
    moved = relocation()
    for package in packages():
        folder = ROOT / package.replace(".", "/")
        if package.partition(".")[0] in moved.moved:
            assert not (ROOT / "ottla" / folder.relative_to(ROOT)).exists()
        for file in folder.glob("*.py*"):
            moved.check_strings(file.read_text(), str(file.relative_to(ROOT)))
