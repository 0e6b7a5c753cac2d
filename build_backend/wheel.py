"""A wheel whose packages are moved into one package: paths, sources, metadata and the RECORD.

In the wheel of setuptools, `storage/log/log.py` is at the top. In the relocated wheel it is `ottla/storage/log/log.py`,
and what imports it says `from ottla.storage.log.log import Log`. The packages of `KEPT` stay where they are. Scripts
and styles become smaller.
"""

import base64
import csv
import hashlib
import io
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

from build_backend.assets import is_asset, minified
from build_backend.relocation import Relocation

HOME: Final = "ottla"
KEPT: Final = (HOME, "pyspark_ottla")
"""PySpark finds data sources in top-level packages whose names begin with `pyspark_`."""


class WheelError(Exception):
    """The wheel cannot be relocated; the message names the file."""


def relocation_for(paths: Iterable[str]) -> Relocation:
    """Return the relocation of all Python files among `paths`, relative to the root of the packages."""
    modules = {module_name(path) for path in paths if path.endswith((".py", ".pyi"))}
    return Relocation(modules, HOME, KEPT)


def module_name(path: str) -> str:
    """Return the dotted name of the module in a file."""
    return ".".join(PurePosixPath(path).with_suffix("").parts).removesuffix(".__init__")


def relocate_wheel(plain: Path, relocated: Path) -> None:
    """Write the relocated copy of a wheel. Raises WheelError, RelocationError for a source, AssetError for a script.

    The result depends only on the content of the wheel: two builds of the same wheel are equal, byte by byte.
    """
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(relocated, "w", zipfile.ZIP_DEFLATED) as target:
        infos = [info for info in source.infolist() if not info.is_dir()]
        relocation = relocation_for(info.filename for info in infos if not _metadata_file(info.filename))
        record: list[tuple[str, str, str]] = []
        for info in infos:
            if _metadata_file(info.filename) == "RECORD":
                continue
            path = _relocated_path(info.filename, relocation)
            if any(path == other for other, *_ in record):
                raise WheelError(
                    f"{info.filename} would replace {path}, which is in {HOME} already: rename one of them"
                )
            data = _relocated_data(info.filename, source.read(info), relocation)
            _write(target, info, path, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append((path, f"sha256={digest}", str(len(data))))
        (listed,) = (info for info in infos if _metadata_file(info.filename) == "RECORD")
        table = io.StringIO()
        csv.writer(table, lineterminator="\n").writerows([*record, (listed.filename, "", "")])
        _write(target, listed, listed.filename, table.getvalue().encode())


def _metadata_file(path: str) -> str | None:
    """Return the path below `….dist-info/`; None for files of packages."""
    folder, _, rest = path.partition("/")
    return rest if folder.endswith(".dist-info") else None


def _relocated_path(path: str, relocation: Relocation) -> str:
    return f"{HOME}/{path}" if path.partition("/")[0] in relocation.moved else path


def _relocated_data(path: str, data: bytes, relocation: Relocation) -> bytes:
    match _metadata_file(path):
        case "top_level.txt":
            return "".join(f"{name}\n" for name in sorted(KEPT)).encode()
        case "entry_points.txt":
            lines = data.decode().splitlines()
            return "".join(f"{_relocated_entry_point(line, relocation)}\n" for line in lines).encode()
        case None if path.endswith((".py", ".pyi")):
            return relocation.rewrite(data.decode(), path).encode()
        case None if is_asset(path):
            return minified(data, path)
    return data


def _relocated_entry_point(line: str, relocation: Relocation) -> str:
    name, equals, target = line.partition(" = ")
    return f"{name}{equals}{relocation.name(target)}" if equals else line


def _write(target: zipfile.ZipFile, info: zipfile.ZipInfo, path: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(path, info.date_time)
    entry.external_attr = info.external_attr
    entry.compress_type = zipfile.ZIP_DEFLATED
    target.writestr(entry, data)
