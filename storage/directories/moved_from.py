"""`.ottla-moved-from`: a file in a moved log's directory that names the log directory it was moved from.

While a log is moved between log directories, both have a directory of the same name for a short time. If the broker
stops then, the file tells the next start which log is valid: the one with the file; the one in the log directory that
it names is obsolete. The file is written and synced before the new log gets its name, and removed after the old log was
renamed. Kafka has no such file and does not start in this case.
"""

from __future__ import annotations

from storage.file_system import FileSystem

MOVED_FROM = ".ottla-moved-from"


def read_moved_from(fs: FileSystem, log: str) -> str | None:
    """Return the log directory from which the log at `log` was moved; None if there is no file. Raises OSError."""
    try:
        return fs.read_file(f"{log}/{MOVED_FROM}").decode(errors="replace")
    except FileNotFoundError:
        return None


def write_moved_from(fs: FileSystem, log: str, log_directory: str) -> None:
    """Write and sync the file; the caller syncs the directory `log`. Raises OSError."""
    fs.write_file(f"{log}/{MOVED_FROM}", log_directory.encode(), sync=True)


def remove_moved_from(fs: FileSystem, log: str) -> None:
    """Remove the file and sync the directory, after the old log is gone. Raises OSError."""
    if fs.remove(f"{log}/{MOVED_FROM}"):
        fs.sync_directory(log)
