"""`ottla groups watch`: members, lag and rates of groups, again and again until Ctrl-C.

At a terminal, every report replaces the one before it. Elsewhere, every report is a line for each group.
"""

import asyncio
import io
import json
import os
import shutil
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from client.errors import GroupIdNotFoundError, KafkaError
from client.topic_partition import TopicPartition
from ottla.command_line.clients import Admin
from ottla.command_line.durations import parse_duration
from ottla.command_line.options import DEFAULT_BOOTSTRAP_SERVER, BootstrapServer
from ottla.command_line.session import run, unknown_group
from ottla.commands.groups.description import describe_groups, print_group
from ottla.commands.groups.selection import Names, Regex, named_groups

_HOME = "\x1b[H"
_ERASE_LINE = "\x1b[K"
_ERASE_BELOW = "\x1b[J"
_RATES = ("committed_per_second", "produced_per_second")


def register(groups: typer.Typer) -> None:
    """Add the command."""
    groups.command(epilog="Example:  ottla groups watch billing --interval 2s")(watch)


def watch(
    names: Names = None,
    regex: Regex = False,
    interval: Annotated[
        str, typer.Option("--interval", "-i", metavar="DURATION", help="The time between two reports.")
    ] = "1s",
    count: Annotated[
        int | None, typer.Option("--count", "-n", min=1, help="End after this many reports. Default: Ctrl-C ends.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for each group and report.")] = False,
    bootstrap_server: BootstrapServer = DEFAULT_BOOTSTRAP_SERVER,
) -> None:
    """Show members, lag and rates of groups again and again, until Ctrl-C.

    A rate is the difference to the report before, per second: of the committed offsets, and of the log end offsets.
    """
    pause_s = parse_duration(interval, "--interval") / 1000
    on_screen = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not as_json

    async def main() -> None:
        rates = _Rates()
        left = count
        async with Admin(bootstrap_servers=bootstrap_server) as admin:
            while True:
                described = await _described(admin, names, regex=regex, is_first=rates.is_empty)
                rates.add_to(described, time.monotonic())
                if on_screen:
                    _redraw(described, interval)
                else:
                    _print_lines(described, as_json=as_json)
                left = None if left is None else left - 1
                if left == 0:
                    return
                await asyncio.sleep(pause_s)

    run(main())


async def _described(admin: Admin, names: list[str] | None, *, regex: bool, is_first: bool) -> list[dict[str, Any]]:
    """Return the documents of the groups. A group that does not exist is an error in the first report only.

    Raises CommandError, and KafkaError for other errors.
    """
    found = []
    for name, group in (await describe_groups(admin, await named_groups(admin, names, regex=regex))).items():
        if not isinstance(group, KafkaError):
            found.append(group)
        elif not isinstance(group, GroupIdNotFoundError) or (names and not regex and is_first):
            raise await unknown_group(admin, name, group)
    return found


class _Rates:
    """Offsets of the report before, from which the rates of a report follow."""

    def __init__(self) -> None:
        self._at: float | None = None
        self._committed: dict[tuple[str, TopicPartition], int] = {}
        self._ends: dict[tuple[str, TopicPartition], int] = {}

    @property
    def is_empty(self) -> bool:
        """Whether there was no report."""
        return self._at is None

    def add_to(self, groups: list[dict[str, Any]], now: float) -> None:
        """Add the rates to the documents of groups and of their partitions; None in the first report."""
        passed_s = None if self._at is None else max(now - self._at, 0.001)
        committed, ends = {}, {}
        for group in groups:
            for row in group["partitions"]:
                key = (group["group"], TopicPartition(row["topic"], row["partition"]))
                committed[key], ends[key] = row["committed_offset"], row["log_end_offset"]
                row["committed_per_second"] = _rate(self._committed.get(key), committed[key], passed_s)
                row["produced_per_second"] = _rate(self._ends.get(key), ends[key], passed_s)
            for name in _RATES:
                known = [row[name] for row in group["partitions"] if row[name] is not None]
                group[name] = round(sum(known), 1) if passed_s is not None else None
        self._at, self._committed, self._ends = now, committed, ends


def _rate(before: int | None, after: int | None, passed_s: float | None) -> float | None:
    if before is None or after is None or passed_s is None:
        return None
    return round((after - before) / passed_s, 1)


def _redraw(groups: list[dict[str, Any]], interval: str) -> None:
    """Write the report from the top of the screen, cut to its height, so that it does not scroll."""
    width, height = shutil.get_terminal_size()
    text = _ScreenText()
    text.write(f"{datetime.now().astimezone():%H:%M:%S}, every {interval}; Ctrl-C ends\n")
    for group in groups:
        text.write("\n")
        print_group(group, text)
    if not groups:
        text.write("\nthere is no group\n")
    lines = [line if "\x1b" in line else line[:width] for line in text.getvalue().splitlines()]  # tables fit already
    if len(lines) >= height:
        hidden = len(lines) - (height - 2)
        lines = [*lines[: height - 2], f"… {hidden} more lines"]
    sys.stdout.write(_HOME + "".join(f"{line}{_ERASE_LINE}\n" for line in lines) + _ERASE_BELOW)
    sys.stdout.flush()


class _ScreenText(io.StringIO):
    """Text for the terminal: tables in it are not wider than the terminal."""

    def isatty(self) -> bool:
        return True


def _print_lines(groups: list[dict[str, Any]], *, as_json: bool) -> None:
    now_ms = time.time_ns() // 1_000_000
    for group in groups:
        if as_json:
            print(json.dumps({"time_ms": now_ms, **group}, ensure_ascii=False))
        else:
            print(_line(group, datetime.fromtimestamp(now_ms / 1000, UTC)))
    sys.stdout.flush()


def _line(group: Mapping[str, Any], now: datetime) -> str:
    rates = " ".join(f"{name}={'-' if group[name] is None else group[name]}" for name in _RATES)
    return (
        f"{now.isoformat(timespec='milliseconds')} {group['group']} state={group['state']}"
        f" members={len(group['members'])} total_lag={group['total_lag']} {rates}"
    )
