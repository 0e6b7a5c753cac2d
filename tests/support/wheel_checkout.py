"""A folder with the tests and documents of this checkout, for a Python that has the wheel: `make test-wheel`.

The tests' imports are rewritten as those of the wheel are (`build_backend.relocation`), because `client` is
`ottla.client` there. The packages are missing. In their place are modules of the same names that nobody may import.
"""

import shutil
import sys
import tomllib
from pathlib import Path

from build_backend.relocation import Relocation
from build_backend.wheel import relocation_for

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ("*.md", "*.toml", "*.txt", "*.yml", "Makefile", "docs/**/*", "examples/**/*", "*/**/README.md")
MODULES = (
    "client.py",
    "broker.py",
    "protocol.py",
    "registry/__init__.py",
    "storage/__init__.py",
    "replication.py",
    "security.py",
)
HOSTILE = 'raise ImportError(f"{__file__} was imported: it is not a part of Ottla")\n'


def packages() -> list[str]:
    """Return the packages of the project."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    listed: list[str] = project["tool"]["setuptools"]["packages"]
    return listed


def relocation() -> Relocation:
    """Return the relocation that the build of the wheel makes."""
    folders = [ROOT / package.replace(".", "/") for package in packages()]
    files = (file for folder in folders for file in folder.glob("*.py*"))
    return relocation_for(str(file.relative_to(ROOT)) for file in files)


def make_checkout(target: Path) -> None:
    """Write the folder, which must not exist."""
    for pattern in DOCUMENTS:
        for file in sorted(ROOT.glob(pattern)):
            name = file.relative_to(ROOT)
            hidden = any(part.startswith(".") or part in ("build", "tests") for part in name.parts)
            if file.is_file() and not hidden and file.suffix != ".pyc":
                _copy(file, target / name)
    moved = relocation()
    for file in sorted((ROOT / "tests").rglob("*")):
        name = file.relative_to(ROOT)
        if file.suffix == ".py":
            text = moved.rewrite(file.read_text(), str(name), strings=True)
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            (target / name).write_text(text)
        elif file.is_file() and file.suffix != ".pyc":
            _copy(file, target / name)
    for module in MODULES:
        (target / module).parent.mkdir(parents=True, exist_ok=True)
        (target / module).write_text(HOSTILE)
    if (ROOT.parent / "shared").exists():  # recorded data: support.reference
        (target.parent / "shared").symlink_to(ROOT.parent / "shared")


def _copy(file: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(file, target)


if __name__ == "__main__":
    make_checkout(Path(sys.argv[1]).absolute())
