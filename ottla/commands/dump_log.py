"""`ottla dump-log`: print the decoded files of a log directory, written by Kafka or by Ottla."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from ottla.command_line.failure import CommandError
from ottla.log_tools import dump_indexes
from ottla.log_tools.dump_segment import Entry, corrupt, dump_segment
from protocol.internal_records import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from storage.errors import CorruptFileError

EPILOG = (
    "Examples:  ottla dump-log --records data/orders-0/00000000000000000000.log;  ottla dump-log data/orders-0 --json"
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("dump-log", epilog=EPILOG)(dump_log)


def dump_log(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="Files of a log directory (.log, .index, .timeindex, .txnindex, .snapshot, checkpoints, "
            "meta.properties, partition.metadata), or directories with such files.",
        ),
    ],
    records: Annotated[bool, typer.Option("--records", "-r", help="Also print the records of every batch.")] = False,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Print records, decoded as records of __consumer_offsets.")
    ] = False,
    transactions: Annotated[
        bool, typer.Option("--transactions", help="Print records, decoded as records of __transaction_state.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each entry.")] = False,
) -> None:
    """Print the content of the files. If a file is corrupt, print the position in bytes and exit with 1."""
    if offsets and transactions:
        raise CommandError("--offsets and --transactions cannot be used together: a file belongs to one topic")
    topic = OFFSETS_TOPIC if offsets else TRANSACTIONS_TOPIC if transactions else None
    broken: list[str] = []
    for path in _expand(paths):
        dumper = _dumper(path, records or topic is not None, topic)
        if not as_json:
            typer.echo(f"{path}:")
        for entry in _entries(path, dumper):
            typer.echo(json.dumps({"file": str(path), **entry}, ensure_ascii=False) if as_json else _line(entry))
            if entry["type"] == "corrupt":
                where = f" at byte {entry['position']}" if entry["position"] is not None else ""
                broken.append(f"{path} is corrupt{where}: {entry['reason']}")
    if broken:
        more = f" (and {len(broken) - 1} more)" if len(broken) > 1 else ""
        raise CommandError(broken[0] + more)


def _expand(paths: list[Path]) -> list[Path]:
    """Return the files to dump; a directory is replaced by its files of a known type."""
    files = []
    for path in paths:
        if not path.exists():
            raise CommandError(f"no file {path}")
        if path.is_dir():
            inside = sorted(child for child in path.iterdir() if child.is_file() and _find_dumper(child, False))
            if not inside:
                raise CommandError(f"{path} contains no files of a log directory")
            files += inside
        else:
            files.append(path)
    return files


def _dumper(path: Path, records: bool, topic: str | None) -> Callable[[Path], Iterator[Entry]]:
    found = _find_dumper(path, records, topic)
    if found is None:
        raise CommandError(f"{path} is neither .log, .index, .timeindex, .txnindex, .snapshot nor a checkpoint")
    return found


def _find_dumper(path: Path, records: bool, topic: str | None = None) -> Callable[[Path], Iterator[Entry]] | None:
    name = path.name.removesuffix(".deleted")
    if name.endswith("checkpoint"):
        return dump_indexes.dump_offset_checkpoint
    if name in ("meta.properties", "partition.metadata"):
        return dump_indexes.dump_properties
    by_suffix: dict[str, Callable[[Path], Iterator[Entry]]] = {
        ".log": lambda file: dump_segment(file, records=records, topic=topic),
        ".index": dump_indexes.dump_offset_index,
        ".timeindex": dump_indexes.dump_time_index,
        ".txnindex": dump_indexes.dump_transaction_index,
        ".snapshot": dump_indexes.dump_snapshot,
    }
    return by_suffix.get(Path(name).suffix)


def _entries(path: Path, dumper: Callable[[Path], Iterator[Entry]]) -> Iterator[Entry]:
    """Yield the entries of a file; if the whole file is invalid, the last entry is the error."""
    try:
        yield from dumper(path)
    except CorruptFileError as error:
        yield corrupt(0, error.rule)


def _line(entry: Entry) -> str:
    """Format an entry as text: its type, then "name: value" for every field except those in `_DEFAULTS`."""
    kind = entry["type"]
    indent = "    " if kind == "record" else "  "
    if kind == "corrupt":
        return f"{indent}CORRUPT at byte {entry['position']}: {entry['reason']}"
    shown = [f"{name}: {_value(value)}" for name, value in entry.items() if name != "type" and _says(name, value)]
    return f"{indent}{kind.replace('_', ' ')}  {'  '.join(shown)}"


_DEFAULTS: dict[str, object] = {
    "producer_id": -1,
    "producer_epoch": -1,
    "base_sequence": -1,
    "last_sequence": -1,
    "sequence": -1,
    "transactional": False,
    "control": False,
    "delete_horizon_ms": None,
    "headers": [],
    "compression": "none",
    "valid": True,
}


def _says(name: str, value: object) -> bool:
    """Whether to print a field of a batch or record: not if it has the usual value in `_DEFAULTS`."""
    return name not in _DEFAULTS or value != _DEFAULTS[name]


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
