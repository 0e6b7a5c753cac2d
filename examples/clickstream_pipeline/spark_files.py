"""What a streaming query has written to a folder of Parquet files, exactly once.

A file counts when the log of Spark's file sink names it: one that a failed batch left behind lies beside the others,
and must not be read. The log is `_spark_metadata/<batch>`; now and then a `<batch>.compact` repeats all before.
"""

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq

LOG = "_spark_metadata"


def read_files(folder: Path) -> pa.Table:
    """The rows of all files that count."""
    return pa.concat_tables([pq.read_table(path) for path in committed_files(folder)], promote_options="default")


def committed_files(folder: Path) -> list[Path]:
    """The files that count, in the order in which they were written."""
    entries: list[Path] = []
    for path in sorted((folder / LOG).glob("[0-9]*"), key=_batch):
        if path.suffix == ".compact":
            entries = []
        entries += _added(path)
    return entries


def _batch(path: Path) -> int:
    return int(path.name.removesuffix(".compact"))


def _added(path: Path) -> list[Path]:
    _, *lines = path.read_text(encoding="utf-8").splitlines()  # the first is the version
    found = [json.loads(line) for line in lines]
    return [Path(unquote(urlsplit(one["path"]).path)) for one in found if one["action"] == "add"]
