"""Opening logs with the parameters that all logs of a broker share."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from storage.directories.loader import LogInDirectory
from storage.errors import LogDirIOError
from storage.file_system import FileSystem
from storage.log.config import LogConfig
from storage.log.log import Log


@dataclass(slots=True)
class LogOpener:
    """Load existing logs and create new ones. `config_of` returns the settings of a topic."""

    fs: FileSystem
    now_ms: Callable[[], int]
    rng: random.Random
    config_of: Callable[[str], LogConfig]
    producer_id_expiration_ms: int
    full_validation: bool

    def load(self, found: LogInDirectory, *, reading: Callable[[int], None]) -> Log:
        """Load an existing log. May be called in any thread; see `storage.directories.loader.Opener`.

        Sync it if flush.messages requires that: a process that was killed may have written records and not synced
        them, and the log end offset counts as durable from now on. (Kafka does not sync them.)
        """
        log = Log.open(
            found.path,
            self.config_of(found.key[0]),
            fs=self.fs,
            now_ms=self.now_ms,
            recovery_point=found.recovery_point,
            log_start_offset=found.log_start_offset,
            clean_shutdown=found.clean,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
            full_validation=self.full_validation,
            rng=self.rng,
            reading=reading,
        )
        if log.log_end_offset - log.recovery_point >= log.config.flush_messages:
            try:
                log.flush()
            except BaseException:
                log.release()
                raise
        return log

    def begin(self, path: Path, topic_id: bytes | None, config: LogConfig, log_start_offset: int = 0) -> Log:
        """Create a log, or open the existing one at `path`. Raises InconsistentTopicIdError, LogDirIOError."""
        return Log.open(
            path,
            config,
            fs=self.fs,
            now_ms=self.now_ms,
            log_start_offset=log_start_offset,
            clean_shutdown=True,
            topic_id=topic_id,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
            full_validation=self.full_validation,
            rng=self.rng,
        )

    def begin_new(self, path: Path, topic_id: bytes | None, config: LogConfig, log_start_offset: int = 0) -> Log:
        """Create a log in a new directory. Raises LogDirIOError, after an attempt to remove the directory."""
        try:
            return self.begin(path, topic_id, config, log_start_offset)
        except LogDirIOError as error:
            self.fs.failed(path, error.cause, extent=error.extent)
            self.is_removed(path)
            raise

    def is_removed(self, path: Path) -> bool:
        """Remove the directory of a log that could not be created. Return False if files may be left."""
        try:
            self.fs.remove_tree(str(path))
        except OSError:
            return False
        return True
