"""Output of commands: tables for users, JSON for scripts."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TextIO, TypeVar

T = TypeVar("T")

WIDE = 100_000
_LEAST_FOLDED = 20


def print_json(value: Any) -> None:
    """Print one JSON document on standard output."""
    json.dump(value, sys.stdout, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
    sys.stdout.write("\n")


def print_described(described: Sequence[T], print_one: Callable[[T], object], *, as_json: bool) -> None:
    """Print what `describe` has found: as one JSON document, or each with `print_one`, with empty lines between."""
    if as_json:
        print_json(described)
        return
    for position, document in enumerate(described):
        if position:
            print()
        print_one(document)


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, long: str | None = None, file: TextIO | None = None
) -> None:
    """Print a table on standard output (or `file`), with numbers right-aligned.

    The width is limited only on a terminal. There, only the cells of the column `long` are folded; if too little is
    left for it, names in the first column are broken at their dots. Without `long`, every column may be folded.
    """
    from rich.console import Console  # rich takes 20 ms; --json does not need it
    from rich.table import Table
    from rich.text import Text

    out = sys.stdout if file is None else file
    lines = [list(row) for row in rows]
    console = Console(file=out, width=None if out.isatty() else WIDE, highlight=False)
    table = Table(box=None, pad_edge=False, header_style="bold", show_header=any(columns))
    for index, column in enumerate(columns):
        numeric = bool(lines) and all(isinstance(line[index], (int, float)) for line in lines)
        whole = long is not None and column != long
        table.add_column(column, justify="right" if numeric else "left", overflow="fold", no_wrap=whole)
    if long is not None:
        _break_names(lines, _LEAST_FOLDED - _width_left(columns, lines, long, console.width))
    for line in lines:
        table.add_row(*(Text(_cell(cell)) for cell in line))
    console.print(table)


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def _width_left(columns: Sequence[str], lines: Sequence[Sequence[object]], long: str, width: int) -> int:
    """Return how many characters of a line the other columns and the gaps of two leave for the column `long`."""
    others = [
        max([len(column), *(len(_cell(line[index])) for line in lines)])
        for index, column in enumerate(columns)
        if column != long
    ]
    return width - sum(others) - 2 * (len(columns) - 1)


def _break_names(lines: Sequence[list[object]], excess: int) -> None:
    """Make the first column narrower by `excess` characters, if that is more than 0."""
    width = max((len(_cell(line[0])) for line in lines), default=0) - excess
    for line in lines if excess > 0 else ():
        line[0] = _broken(_cell(line[0]), max(width, _LEAST_FOLDED))


def _broken(name: str, width: int) -> str:
    """Return a name in lines of `width` characters, which end behind a dot, a hyphen or a slash where possible."""
    parts, indent = [], ""
    while len(indent) + len(name) > width:
        room = width - len(indent)
        cut = max(name.rfind(sign, 0, room) for sign in ".-_/") + 1 or room
        parts.append(indent + name[:cut])
        name, indent = name[cut:], "  "
    return "\n".join([*parts, indent + name])


def human_bytes(size: float) -> str:
    """Return a size with its unit: 1.5 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 move", "2 moves"."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def number_ranges(numbers: Sequence[int]) -> str:
    """Format sorted numbers, with a hyphen for each run: "0-3,7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def discard(stream: TextIO) -> None:
    """Redirect a stream to /dev/null: its reader is gone (`| head`), and the last flush must not fail."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
