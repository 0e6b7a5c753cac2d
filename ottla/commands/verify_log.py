"""`ottla verify-log`: verify the files of log directories, written by Kafka or by Ottla, and repair them."""

import logging
import time
from pathlib import Path
from typing import Annotated, Any

import typer

import storage
from ottla.command_line.failure import CommandError, UnverifiedError
from ottla.command_line.options import AsJson
from ottla.command_line.output import print_json
from ottla.command_line.progress import Progress
from storage.directories.log_directory import LogDirectory
from storage.errors import LogDirLockedError, StorageError
from storage.file_system import FileSystem
from storage.verification.lock import SharedLock
from storage.verification.log_dir import is_log_directory
from storage.verification.repair import Repair
from storage.verification.report import VerificationReport
from storage.verification.verification import NotALogDirectoryError, is_partition, verify

EPILOG = (
    "Examples:  ottla verify-log data;  ottla verify-log data/orders-0 --deep --json;  ottla verify-log data --repair"
)

_COUNTED = ("partition", "segment", "batch")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("verify-log", epilog=EPILOG)(verify_log)


def verify_log(
    directories: Annotated[
        list[Path],
        typer.Argument(metavar="DIR", help="Log directories (entries of log.dirs), or directories of partitions."),
    ],
    deep: Annotated[
        bool, typer.Option("--deep", help="Also decompress and decode the records of every batch.")
    ] = False,
    while_running: Annotated[
        bool,
        typer.Option("--while-running", help="Verify a directory in use: changes in progress are not errors."),
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Repair like log recovery: truncate logs at the first corrupt batch, rebuild indexes."
        ),
    ] = False,
    accept_data_loss: Annotated[
        bool,
        typer.Option("--accept-data-loss", help="With --repair: also truncate records that were synced or committed."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify every batch, index, snapshot and checkpoint; print each error and its position, and exit with 1 if any.

    Nothing is changed without --repair.
    """
    if repair and while_running:
        raise UnverifiedError("--repair cannot be used with --while-running: stop the broker first")
    if accept_data_loss and not repair:
        raise UnverifiedError("--accept-data-loss needs --repair")
    outcomes = []
    for directory in directories:
        outcome = _Outcome(str(directory).rstrip("/") or "/", as_json=as_json)
        outcome.verify(deep=deep, while_running=while_running, repair=repair, accept_loss=accept_data_loss)
        outcomes.append(outcome)
    if as_json:
        print_json([outcome.to_json() for outcome in outcomes])
    broken = [outcome for outcome in outcomes if outcome.errors]
    if broken:
        where = ", ".join(outcome.directory for outcome in broken)
        raise CommandError(f"{_count(sum(outcome.errors for outcome in broken), 'error')} in {where}")


class _Outcome:
    """The outcome for one directory: its report, and the repairs made."""

    def __init__(self, directory: str, *, as_json: bool) -> None:
        self.directory = directory
        self.repaired: list[str] = []
        self._as_json = as_json
        self._report: VerificationReport

    @property
    def errors(self) -> int:
        return self._report.errors

    def verify(self, *, deep: bool, while_running: bool, repair: bool, accept_loss: bool) -> None:
        """Verify the directory; with `repair`, repair errors and verify again. Raises UnverifiedError."""
        if not Path(self.directory).is_dir():
            raise UnverifiedError(f"no directory {self.directory}")
        try:
            if repair:
                self._repair(deep=deep, accept_loss=accept_loss)
                return
            try:
                with SharedLock(_lock_place(self.directory)):
                    self._look(deep=deep, live=False)
            except LogDirLockedError:
                if not while_running:
                    raise
                self._look(deep=deep, live=True)
        except LogDirLockedError as error:
            raise UnverifiedError(f"{error}: stop the broker first, or use --while-running") from error
        except StorageError as error:
            raise UnverifiedError(str(error)) from error
        self._show()

    def _look(self, *, deep: bool, live: bool) -> None:
        total = sum(file.stat().st_size for file in Path(self.directory).rglob("*.log"))
        with Progress("MiB", total >> 20) as progress:
            report = VerificationReport(lambda report: progress.update(report.bytes >> 20))
            verify(self.directory, report, deep=deep, live=live)
        self._report = report

    def _repair(self, *, deep: bool, accept_loss: bool) -> None:
        self.directory = str(Path(self.directory).absolute())
        parent = _lock_place(self.directory)
        if not is_log_directory(FileSystem(), parent):
            raise NotALogDirectoryError(self.directory)
        logging.getLogger(storage.__name__).addHandler(logging.NullHandler())  # the command prints what recovery logs
        lock = LogDirectory(FileSystem(), Path(parent))
        lock.lock()
        try:
            self._look(deep=deep, live=False)
            self._show()
            if self._report.problems:
                Repair(FileSystem(), parent, _now_ms, self._tell).run(self._report, accept_loss=accept_loss)
            if self.repaired:
                self._look(deep=deep, live=False)
                self._show()
        finally:
            lock.unlock()

    def _tell(self, line: str) -> None:
        self.repaired.append(line)
        if not self._as_json:
            typer.echo(line)

    def _show(self) -> None:
        if self._as_json:
            return
        report = self._report
        for problem in report.problems:
            typer.echo(str(problem))
        for path, count in report.left_out.items():
            typer.echo(f"{path}: {count} more")
        found = _count(report.errors, "error") if report.errors else "sound"
        found += f", {_count(report.warnings, 'warning')}" if report.warnings else ""
        counts = zip((report.partitions, report.segments, report.batches), _COUNTED, strict=True)
        typer.echo(f"{self.directory}: {', '.join(_count(*each) for each in counts)}: {found}")

    def to_json(self) -> dict[str, Any]:
        """Return the last report and the repairs made."""
        report = self._report
        return {
            "directory": self.directory,
            "sound": not self.errors,
            "partitions": report.partitions,
            "segments": report.segments,
            "batches": report.batches,
            "records": report.records,
            "bytes": report.bytes,
            "problems": [problem._asdict() for problem in report.problems],
            "left_out": report.left_out,
            "repaired": self.repaired,
        }


def _lock_place(directory: str) -> str:
    """Return the directory that has the lock: for a partition's directory, its log directory."""
    return str(Path(directory).absolute().parent) if is_partition(directory) else directory


def _count(number: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
