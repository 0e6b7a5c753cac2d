"""Output of commands: tables for users, JSON for scripts."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

WIDE = 100_000


def print_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
    sys.stdout.write("\n")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Print a table on standard output, with numbers right-aligned; its width is limited only on a terminal."""
    from rich.console import Console  # rich takes 20 ms; --json does not need it
    from rich.table import Table
    from rich.text import Text

    lines = [list(row) for row in rows]
    console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(columns))
    for index, column in enumerate(columns):
        numeric = bool(lines) and all(isinstance(line[index], (int, float)) for line in lines)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for line in lines:
        table.add_row(*(Text("-" if cell is None else str(cell)) for cell in line))
    console.print(table)


def human_bytes(size: float) -> str:
    """Return a size with its unit: 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def discard(stream: TextIO) -> None:
    """Redirect a stream to /dev/null: its reader is gone (`| head`), and the last flush must not fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
