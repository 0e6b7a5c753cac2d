"""The packages for Spark's driver and executors, as one archive for `spark-submit --py-files`.

    python -m ottla.py_files ottla.zip

The packages are pure Python. Their dependencies (numpy, pyarrow, crc32c, cramjam, zstandard) are compiled, so an
archive of Python files cannot contain them: they have to be installed where executors run.
"""

import sys
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import client
import protocol
import security
import spark_connector

SOURCE: Final = "pyspark_ottla"
"""The package that Spark finds the source by. To import it needs pyspark, which an archive is made without."""
USAGE: Final = "usage: python -m ottla.py_files ARCHIVE.zip"


def write_archive(path: Path) -> None:
    """Write the packages, from where this Python imports them, to an archive. Raises OSError."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in sorted(_files()):
            archive.write(file, name)


def _files() -> Iterator[tuple[str, Path]]:
    """Yield the path of each file in the archive, and the file."""
    for package in (client, protocol, security, spark_connector):
        yield from _files_of(package.__name__, Path(package.__path__[0]))
    source = find_spec(SOURCE)
    assert source is not None
    assert source.origin is not None
    yield from _files_of(SOURCE, Path(source.origin).parent)
    container = client.__name__.rpartition(".")[0]
    if container:  # in a wheel, the packages are in `ottla`, whose own modules are needed to import them
        home = Path(client.__path__[0]).parent
        yield from ((f"{container}/{file.name}", file) for file in home.glob("*.py*") if file.is_file())


def _files_of(package: str, home: Path) -> Iterator[tuple[str, Path]]:
    folder = package.replace(".", "/")
    for file in home.rglob("*.py"):
        yield f"{folder}/{file.relative_to(home).as_posix()}", file


def main(arguments: list[str]) -> int:
    """Run the program and return its exit code."""
    if len(arguments) != 1 or not arguments[0].endswith(".zip"):  # Spark's executors support no other archive
        print(USAGE, file=sys.stderr)
        return 2
    write_archive(Path(arguments[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
