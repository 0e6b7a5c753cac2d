"""`.ottla-moved-from`: in the directory of a log that takes the place of another one, where that one is.

A log that is moved between log directories is for a moment in both, under the same name. The file says which of them
counts after a stop in that moment: the one that has it, in place of the one in the log directory that it names. It is
there, synced, before the log takes its name, and goes when the other one has lost its own. Kafka has no such file, and
does not start then.
"""

from __future__ import annotations

from storage.file_system import FileSystem

MOVED_FROM = ".ottla-moved-from"


def read_moved_from(fs: FileSystem, log: str) -> str | None:
    """The log directory that the log in the directory `log` was moved from; None where it was not. Raises OSError."""
    try:
        return fs.read_file(f"{log}/{MOVED_FROM}").decode(errors="replace")
    except FileNotFoundError:
        return None


def write_moved_from(fs: FileSystem, log: str, log_directory: str) -> None:
    """Note it, durably but for the entry in the directory `log`. Raises OSError."""
    fs.write_file(f"{log}/{MOVED_FROM}", log_directory.encode(), sync=True)


def remove_moved_from(fs: FileSystem, log: str) -> None:
    """The other one is gone: forget it, durably. Raises OSError."""
    if fs.remove(f"{log}/{MOVED_FROM}"):
        fs.sync_directory(log)
