"""A file of users: lines `user:hash`, with empty lines and comments (`#`). A changed file is read again.

The hash of a password is that of `ottla users hash`; that of a token is `$sha256$` and hexadecimal digits. If a changed
file is wrong or missing, its earlier content stays in force, and the log says why. No message shows a hash.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from security.password_hash import HashFormatError
from security.trimming import trimmed
from storage.setting import ConfigError

logger = logging.getLogger(__name__)

POLL_S = 5.0
"""How often the file is looked at."""
MAX_BYTES = 1024 * 1024

Hash = TypeVar("Hash")
_State = tuple[int, int, int]
"""Modification time, size and inode."""


class CredentialFile(Generic[Hash]):
    """One file. `hashes`: of each user, in the order of the lines; a user may have several."""

    def __init__(self, setting: str, path: str, parse: Callable[[str], Hash]) -> None:
        """setting: the name of the setting with the path. parse: reads a hash, and raises HashFormatError."""
        self.hashes: dict[str, list[Hash]] = {}
        self._setting = setting
        self._path = path
        self._parse = parse
        self._state: _State | None = None

    def read(self) -> None:
        """Read the file. Raises ConfigError."""
        self._state, self.hashes = self._read()

    async def watch(self, poll_s: float = POLL_S) -> None:
        """Read the file again when it has changed, until cancelled."""
        while True:
            await asyncio.sleep(poll_s)
            state = await asyncio.to_thread(self._stat)  # before the content: a change during a failed read counts
            if state == self._state:
                continue
            try:
                self._state, self.hashes = await asyncio.to_thread(self._read)
            except ConfigError as error:
                logger.error("the earlier users stay: %s", error)
                self._state = state
            else:
                logger.info("%s: %s has been read again", self._setting, self._path)

    def _stat(self) -> _State | None:
        try:
            found = Path(self._path).stat()
        except (OSError, ValueError):  # ValueError: a zero byte in the name
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> tuple[_State | None, dict[str, list[Hash]]]:
        state = self._stat()  # before the content: a change between the two is seen later
        try:
            with Path(self._path).open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConfigError(self._setting, self._path, f"cannot be read: {reason}") from None
        if len(content) > MAX_BYTES:
            raise ConfigError(self._setting, self._path, f"must be at most {MAX_BYTES} bytes")
        try:
            text = content.decode()
        except UnicodeDecodeError:
            raise ConfigError(self._setting, self._path, "must be UTF-8") from None
        hashes: dict[str, list[Hash]] = {}
        for number, line in enumerate(text.split("\n"), 1):
            line = trimmed(line)
            if line and not line.startswith("#"):
                user, one = self._entry(number, line)
                hashes.setdefault(user, []).append(one)
        return state, hashes

    def _entry(self, number: int, line: str) -> tuple[str, Hash]:
        user, colon, text = line.partition(":")
        if not (user and colon and user.isprintable()):
            raise ConfigError(self._setting, self._path, f"line {number} must be user:hash")
        try:
            return user, self._parse(text)
        except HashFormatError as error:
            raise ConfigError(self._setting, self._path, f"line {number}: the hash {error}") from None
