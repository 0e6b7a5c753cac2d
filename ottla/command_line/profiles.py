"""Profiles: named clusters with client settings, in a TOML file that the user may edit.

    current = "staging"

    [profiles.staging]
    "bootstrap.servers" = "broker-1:9092,broker-2:9092"
    "request.timeout.ms" = 5000

The file is `profiles.toml` in $XDG_CONFIG_HOME/ottla (default: ~/.config/ottla); OTTLA_CONFIG names another one. It is
replaced atomically, has mode 0600, and keeps the user's comments.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ottla.command_line import client_settings, variables
from ottla.command_line.client_settings import SERVERS, Value
from ottla.command_line.failure import CommandError, suggest
from security.secret import revealed

if TYPE_CHECKING:
    from tomlkit import TOMLDocument

_CURRENT: Final = "current"
_PROFILES: Final = "profiles"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class Profile:
    """The client settings of a profile, by Kafka's names; no name: the settings of nobody."""

    name: str | None = None
    settings: Mapping[str, Value] = field(default_factory=dict)

    @property
    def bootstrap_servers(self) -> str | None:
        """The servers of the profile; None: it names none."""
        servers = self.settings.get(SERVERS)
        return None if servers is None else str(servers)


NO_PROFILE: Final = Profile()


def path() -> Path:
    """Return the path of the file, which may not exist."""
    if given := os.environ.get(variables.CONFIG):
        return Path(given)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "ottla" / "profiles.toml"


@dataclass(frozen=True, slots=True)
class ProfileFile:
    """The content of the file. The settings of a profile are checked when it is used: `profile`."""

    path: Path
    current: str | None
    tables: Mapping[str, Any]

    def profile(self, name: str, others: Mapping[str, Value] | None = None) -> Profile:
        """Return a profile; `others` are settings that replace its own.

        Raises CommandError if it does not exist or has a wrong setting.
        """
        table = self._table(name)
        try:
            settings = {**client_settings.typed(_flat(table)), **(others or {})}
            client_settings.check(settings)
            return Profile(name, settings)
        except CommandError as error:
            raise CommandError(f"profile {name} in {self.path}: {error}") from error

    def _table(self, name: str) -> Mapping[str, Any]:
        """Return what the file has for a profile. Raises CommandError."""
        if name not in self.tables:
            near = suggest(name, list(self.tables))
            create = "" if near else f"; create it with `ottla profile create {name} --bootstrap-server HOST:PORT`"
            raise CommandError(f"there is no profile {name} in {self.path}{near}{create}")
        table = self.tables[name]
        if not isinstance(table, dict):
            raise CommandError(f"{self.path}: {_PROFILES}.{name} must be a table of settings")
        return table


def read() -> ProfileFile:
    """Read the file; a missing file has no profiles. Raises CommandError if it is not what the module describes."""
    file = path()
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ProfileFile(file, None, {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} is not a TOML file: {error}") from error
    for key in content:
        if key not in (_CURRENT, _PROFILES):
            raise CommandError(f"{file}: unknown key {key}{suggest(key, [_CURRENT, _PROFILES])}")
    current, tables = content.get(_CURRENT), content.get(_PROFILES, {})
    if not isinstance(tables, dict) or not isinstance(current, str | None):
        raise CommandError(f"{file}: {_CURRENT} must be a text, and {_PROFILES} a table of profiles")
    return ProfileFile(file, current, tables)


def choose(name: str | None, others: Mapping[str, Value] | None = None) -> Profile:
    """Return the profile with this name; None: the current one, if there is one; "": no profile.

    others: settings that replace those of the profile. Raises CommandError.
    """
    file = None if name == "" else read()
    wanted = None if file is None else name or file.current
    if file is not None and wanted:
        return file.profile(wanted, others)
    if not others:
        return NO_PROFILE
    client_settings.check(others)
    return Profile(None, others)


def create(name: str, settings: Mapping[str, Value], *, replace: bool = False) -> bool:
    """Write a profile, and return whether it is the current one: the first profile becomes it.

    Raises CommandError for a name that is no name, or that exists (unless `replace`).
    """
    if _NAME.fullmatch(name) is None:
        raise CommandError(f"profile name {name!r}: must consist of letters, digits, '.', '_' and '-'")
    file = read()
    if name in file.tables and not replace:
        raise CommandError(f"profile {name} exists in {file.path}; --replace replaces it")
    document = _document(file.path)
    tables = document.setdefault(_PROFILES, {})
    tables[name] = {key: revealed(value) if isinstance(value, str) else value for key, value in settings.items()}
    is_first = not file.tables and file.current is None
    if is_first:
        _set_current(document, name)
    _write(file.path, document)
    return is_first or file.current == name


def use(name: str | None) -> None:
    """Make a profile the current one; None: no profile. Raises CommandError if it does not exist or is wrong."""
    file = read()
    if name is not None:
        file.profile(name)
    document = _document(file.path)
    _set_current(document, name)
    _write(file.path, document)


def delete(name: str) -> bool:
    """Delete a profile, and return whether it was the current one. Raises CommandError if it does not exist."""
    file = read()
    if name not in file.tables:
        raise CommandError(f"there is no profile {name} in {file.path}{suggest(name, list(file.tables))}")
    document = _document(file.path)
    del document[_PROFILES][name]
    was_current = file.current == name
    if was_current:
        _set_current(document, None)
    _write(file.path, document)
    return was_current


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """Return the settings by name: TOML reads an unquoted `retry.backoff.ms` as nested tables."""
    found: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{prefix}{key}.")
        else:
            found[prefix + key] = value
    return found


def _set_current(document: "TOMLDocument", name: str | None) -> None:
    if name is None:
        document.pop(_CURRENT, None)
    else:
        document[_CURRENT] = name


def _document(file: Path) -> "TOMLDocument":
    """Return the file as a document that keeps its comments; empty if the file does not exist."""
    import tomlkit  # takes 40 ms; only commands that change profiles need it

    return tomlkit.parse(file.read_text(encoding="utf-8")) if file.exists() else tomlkit.document()


def _write(file: Path, document: "TOMLDocument") -> None:
    """Replace the file, or the file that a link points to; create its folder."""
    from storage.file_system import FileSystem  # as tomlkit above: commands that only read need no storage

    file = file.resolve()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    FileSystem().replace_file(str(file), document.as_string().encode(), sync=True, private=True)
