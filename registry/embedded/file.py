"""The embedded registry's file: an SQLite database with one row per node.

Journal: WAL with `synchronous=FULL`, because a write is acknowledged after its commit and must survive a power cut. In
WAL mode, NORMAL syncs only at checkpoints, so the last commits could be lost. FULL syncs the WAL once per commit, half
as often as the rollback journal would. EXTRA has no further effect in WAL mode.

Lock: `locking_mode=EXCLUSIVE`. The first transaction takes SQLite's file lock and keeps it until the file is closed or
the process ends, so a second process is refused. WAL then needs no shared memory file.

Checkpoints: SQLite copies the WAL to the database after every `_CHECKPOINT_PAGES` pages. So the space that a checkpoint
needs for a database that has grown is limited, and the reserve is larger (registry/embedded/reserve.py). If the disk is
full, a checkpoint also lets the WAL begin again in the space that it has.

Mode: only the owner can read the files (0600), because znodes hold SCRAM keys, HMACs of delegation tokens and encrypted
passwords, and `session` holds passwords of sessions.

Tables: `znode` has the fields of TreeNode except the number of children, which is counted at load; `acl` is null for
the open ACL, else lines of `permissions:scheme:id`. `meta` has the last zxid, which must never decrease: Kafka uses it
as broker epoch. `session` has the sessions that survive a restart; it is created with the first one. `user_version` is
the version of the layout; `application_id` identifies Ottla's files.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from registry.embedded.reserve import Reserve
from registry.embedded.tree import Draft, KeptSession, Tree, TreeNode, new_root
from registry.errors import RegistryCorruptError, RegistryFullError, RegistryInUseError, RegistryStorageError
from registry.interface import OPEN_ACL, Acl
from registry.paths import parent_of

_APPLICATION_ID = 0x4F74746C  # "Ottl"
_LAYOUT = 1
_CHECKPOINT_PAGES = 128  # of 4 KiB
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO

_CREATE_ZNODE = (
    "CREATE TABLE znode (path TEXT PRIMARY KEY NOT NULL, data BLOB, czxid INTEGER NOT NULL,"
    " mzxid INTEGER NOT NULL, ctime INTEGER NOT NULL, mtime INTEGER NOT NULL, version INTEGER NOT NULL,"
    " creates INTEGER NOT NULL, aversion INTEGER NOT NULL, ephemeral_owner INTEGER NOT NULL,"
    " pzxid INTEGER NOT NULL, acl TEXT)"
)
_CREATE_META = "CREATE TABLE meta (name TEXT PRIMARY KEY NOT NULL, value INTEGER NOT NULL)"
_SELECT = (
    "SELECT path, data, czxid, mzxid, ctime, mtime, version, creates, aversion, ephemeral_owner, pzxid, acl FROM znode"
)
_UPSERT = "INSERT OR REPLACE INTO znode VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
_CREATE_SESSION = (
    "CREATE TABLE session (id INTEGER PRIMARY KEY NOT NULL, timeout_ms INTEGER NOT NULL, password BLOB NOT NULL)"
)
_NO_SESSIONS: Mapping[int, KeptSession | None] = {}


class RegistryFile:
    """The open file. Not thread safe: calls may be on any thread, but only one at a time."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self.full: str | None = None
        """Why only writes that may use the reserve are tried; None if there is room."""
        self.sessions: dict[int, KeptSession] = {}
        """The sessions of the previous process that go on."""
        self._has_session_table = False
        self._connection = connection
        self._reserve = Reserve(path.with_name(f"{path.name}-reserve"))

    @classmethod
    def open(cls, path: Path, now_ms: int, *, keep_sessions: bool = False) -> tuple[RegistryFile, Tree]:
        """Open or create the file, and read the tree without the ephemeral nodes of sessions that have ended.

        keep_sessions: `sessions` of the previous process go on; otherwise all have ended.

        Only the owner can read the file. An existing file can be opened on a full disk.

        Raises RegistryInUseError, RegistryCorruptError, RegistryStorageError.
        """
        try:
            _make_private(path)
        except OSError as error:
            raise RegistryStorageError(f"{path}: cannot be opened: {error}") from error
        try:
            connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise RegistryStorageError(f"{path}: cannot be opened: {error}") from error
        file = cls(path, connection)
        try:
            tree = file._load()
            file.look_for_room()
            file._drop_ended(tree, now_ms, keep_sessions=keep_sessions)
        except BaseException as error:
            connection.close()
            raise file._explained(error) from error
        return file, tree

    def write(
        self,
        changes: Mapping[str, TreeNode | None],
        zxid: int,
        sessions: Mapping[int, KeptSession | None] = _NO_SESSIONS,
        *,
        use_reserve: bool = False,
    ) -> None:
        """Make changes of nodes and sessions durable, all or none.

        use_reserve: if the disk is full, release the reserve step by step until the write succeeds.

        Raises RegistryFullError if the disk is full: then nothing has changed. Raises RegistryStorageError for every
        other failure: then the state of the file is unknown.
        """
        if self.full is not None and not use_reserve and not self.look_for_room():
            raise RegistryFullError(self.full)
        try:
            self._write(changes, zxid, sessions)
        except RegistryFullError as error:
            self.full = str(error)
            if not use_reserve:
                raise
            self._write_with_reserve(changes, zxid, sessions)

    def look_for_room(self) -> bool:
        """Restore the reserve. Return whether the disk has room beyond it; `full` then becomes None."""
        self.full = None if self._reserve.fill() else self.full or f"{self.path}: the disk is full"
        return self.full is None

    def _write_with_reserve(
        self, changes: Mapping[str, TreeNode | None], zxid: int, sessions: Mapping[int, KeptSession | None]
    ) -> None:
        self._checkpoint()
        while True:
            try:
                self._write(changes, zxid, sessions)
                return
            except RegistryFullError:
                if not self._reserve.release():
                    raise
                self._checkpoint()

    def _checkpoint(self) -> None:
        """Copy the WAL to the database, so that the next write reuses the WAL's space, if the disk has room for it."""
        try:
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        except sqlite3.Error as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                raise RegistryStorageError(f"{self.path}: a checkpoint failed: {error}") from error

    def _write(
        self, changes: Mapping[str, TreeNode | None], zxid: int, sessions: Mapping[int, KeptSession | None]
    ) -> None:
        execute = self._connection.execute
        try:
            execute("BEGIN")
            for path, node in changes.items():
                if node is None:
                    execute("DELETE FROM znode WHERE path = ?", (path,))
                else:
                    execute(_UPSERT, _row(path, node))
            has_session_table = self._write_sessions(sessions)
            execute("UPDATE meta SET value = ? WHERE name = 'zxid'", (zxid,))
            execute("COMMIT")
            self._has_session_table = has_session_table
        except sqlite3.Error as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_FULL and self._rolled_back():
                raise RegistryFullError(f"{self.path}: the disk is full") from error
            raise RegistryStorageError(f"{self.path}: a write failed: {error}") from error

    def _write_sessions(self, sessions: Mapping[int, KeptSession | None]) -> bool:
        """Write sessions in the open transaction. Return whether the table exists after it."""
        execute = self._connection.execute
        has_table = self._has_session_table
        for session_id, session in sessions.items():
            if session is None:
                if has_table:
                    execute("DELETE FROM session WHERE id = ?", (session_id,))
                continue
            if not has_table:
                execute(_CREATE_SESSION)
                has_table = True
            execute("INSERT OR REPLACE INTO session VALUES (?,?,?)", (session_id, *session))
        return has_table

    def _rolled_back(self) -> bool:
        """Roll the transaction back, unless SQLite has done so; False if that fails. SQLite ignores its pages in the
        WAL.
        """
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            return False
        return True

    def close(self) -> None:
        """Close the file; an open transaction is rolled back. The reserve gets the space of the WAL if it needs it."""
        self._connection.close()
        self._reserve.fill()

    def _load(self) -> Tree:
        execute = self._connection.execute
        execute("PRAGMA locking_mode = EXCLUSIVE")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = FULL")
        execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        execute("BEGIN EXCLUSIVE")  # takes the lock for as long as the file is open
        if execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            execute(f"PRAGMA user_version = {_LAYOUT}")
            execute(_CREATE_ZNODE)
            execute(_CREATE_META)
            execute("INSERT INTO meta VALUES ('zxid', 0)")
            execute(_UPSERT, _row("/", new_root()))
        execute("COMMIT")
        application_id = execute("PRAGMA application_id").fetchone()[0]
        layout = execute("PRAGMA user_version").fetchone()[0]
        if application_id != _APPLICATION_ID:
            raise RegistryCorruptError(f"{self.path}: the database belongs to another program")
        if layout != _LAYOUT:
            raise RegistryCorruptError(f"{self.path}: unknown layout {layout}, only {_LAYOUT} is supported")
        zxid = execute("SELECT value FROM meta WHERE name = 'zxid'").fetchone()
        if zxid is None:
            raise RegistryCorruptError(f"{self.path}: the last zxid is missing")
        if execute("SELECT count(*) FROM sqlite_master WHERE name = 'session'").fetchone()[0]:
            self._has_session_table = True
            self.sessions = {row[0]: KeptSession(*row[1:]) for row in execute("SELECT * FROM session")}
        nodes = {row[0]: _node(row) for row in execute(_SELECT)}
        return Tree(self._with_children_counted(nodes), zxid[0])

    def _with_children_counted(self, nodes: dict[str, TreeNode]) -> dict[str, TreeNode]:
        if "/" not in nodes:
            raise RegistryCorruptError(f"{self.path}: the root is missing")
        counts = dict.fromkeys(nodes, 0)
        for path in nodes:
            if path == "/":
                continue
            parent = parent_of(path)
            if parent not in counts:
                raise RegistryCorruptError(f"{self.path}: {path} has no parent")
            counts[parent] += 1
        return {path: node._replace(num_children=counts[path]) for path, node in nodes.items()}

    def _drop_ended(self, tree: Tree, now_ms: int, *, keep_sessions: bool) -> None:
        """Delete the sessions that ended with the previous process, and their ephemeral nodes.

        If there is no room for this, they are deleted in memory only, and on disk by a later start.
        """
        draft = Draft(tree.get, tree.zxid + 1, now_ms)
        if not keep_sessions:
            draft.sessions.update(dict.fromkeys(self.sessions))
            self.sessions = {}
        ephemerals = [path for path, node in tree.nodes.items() if node.is_ephemeral]
        for path in ephemerals:
            if tree.nodes[path].ephemeral_owner not in self.sessions:
                draft.remove(path)
        if not draft.changes and not draft.sessions:
            return
        with suppress(RegistryFullError):
            self.write(draft.changes, draft.zxid, draft.sessions, use_reserve=True)
        tree.merge(draft)

    def _explained(self, error: BaseException) -> BaseException:
        if isinstance(error, sqlite3.OperationalError) and "locked" in str(error):
            return RegistryInUseError(f"{self.path}: another process has the registry open")
        if isinstance(error, sqlite3.OperationalError):
            return RegistryStorageError(f"{self.path}: cannot be opened: {error}")
        if isinstance(error, (sqlite3.DatabaseError, ValueError, TypeError)):
            return RegistryCorruptError(f"{self.path}: not a registry: {error}")
        return error


def _make_private(path: Path) -> None:
    """Create the file, or change it and SQLite's other files, so that only the owner can read them.

    SQLite creates its other files with the mode of this one. An existing file is not opened here: closing it would
    release the lock of a store of this process.
    """
    path = Path(os.path.realpath(path))  # the other files are beside the target of a link
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return
    for suffix in ("", "-wal", "-shm", "-journal"):
        one = path.with_name(path.name + suffix)
        with suppress(FileNotFoundError):
            mode = one.stat().st_mode
            if stat.S_ISREG(mode) and mode & _OF_OTHERS:
                one.chmod(stat.S_IMODE(mode) & ~_OF_OTHERS)


def _row(path: str, node: TreeNode) -> tuple[object, ...]:
    acl = None if node.acl is OPEN_ACL else "\n".join(f"{a.permissions}:{a.scheme}:{a.id}" for a in node.acl)
    return (
        path,
        node.data,
        node.czxid,
        node.mzxid,
        node.ctime,
        node.mtime,
        node.version,
        node.creates,
        node.aversion,
        node.ephemeral_owner,
        node.pzxid,
        acl,
    )


def _node(row: tuple[str, bytes | None, int, int, int, int, int, int, int, int, int, str | None]) -> TreeNode:
    _path, data, czxid, mzxid, ctime, mtime, version, creates, aversion, owner, pzxid, text = row
    acl = OPEN_ACL
    if text is not None:
        entries = (line.split(":", 2) for line in text.split("\n"))
        acl = tuple(Acl(int(permissions), scheme, name) for permissions, scheme, name in entries)
    return TreeNode(data, czxid, mzxid, ctime, mtime, version, creates, aversion, owner, 0, pzxid, acl)
