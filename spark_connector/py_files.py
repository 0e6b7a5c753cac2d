"""The packages for Spark's driver and executors, as one archive for `spark-submit --py-files`.

    python -m spark_connector.py_files ottla.zip

The packages are pure Python. Their dependencies (numpy, pyarrow, crc32c, cramjam, zstandard) are compiled, so an
archive of Python files cannot contain them: they have to be installed where executors run.
"""

import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final

PACKAGES: Final = ("client", "protocol", "pyspark_ottla", "spark_connector")
USAGE: Final = "usage: python -m spark_connector.py_files ARCHIVE.zip"


def write_archive(path: Path) -> None:
    """Write the packages, from where this Python imports them, to an archive. Raises OSError."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            spec = find_spec(package)
            assert spec is not None
            assert spec.origin is not None
            home = Path(spec.origin).parent
            for file in sorted(home.rglob("*.py")):
                archive.write(file, file.relative_to(home.parent))


def main(arguments: list[str]) -> int:
    """Run the program and return its exit code."""
    if len(arguments) != 1 or not arguments[0].endswith(".zip"):  # Spark's executors support no other archive
        print(USAGE, file=sys.stderr)
        return 2
    write_archive(Path(arguments[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
