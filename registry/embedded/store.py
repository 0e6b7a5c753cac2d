"""The embedded registry: ZooKeeper's tree and semantics in this process, stored in one SQLite file.

`EmbeddedStore` owns the tree, the file and the sessions; `store.session()` returns a Registry
(registry/embedded/session.py). It is the default for a single broker, for clusters of brokers in one process and for
simulations.

All writes go through one queue. The writer takes all queued writes, applies them in order to one draft, and commits the
draft to the file off the event loop. Only then it makes the draft visible, answers the callers and fires the watches.
So writes are applied in the order of the calls, many callers share one fsync, and no caller sees a state that a power
cut could undo. Reads are served from memory and never wait.

If a commit fails, the state on disk is unknown: every caller gets RegistryStorageError, every session expires (which
makes a broker give up its leadership), and the store refuses further calls.

If the disk is full, nothing was written. The writes of the group are then tried one by one. Those that may use the
reserve (registry/embedded/reserve.py) use it; the others are refused with RegistryFullError and may be tried again.
Once a second the store tries to restore the reserve. The end of a session is never refused: if even the reserve is used
up, it is applied in memory, and written with the next write that succeeds.

Sessions of this process end with it. Sessions of clients in other processes (`open_kept_session`) and their ephemeral
nodes survive a restart, if the store is opened with `keep_sessions`.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from registry.embedded.file import RegistryFile
from registry.embedded.lifetimes import has_ended
from registry.embedded.reserve import may_use_reserve
from registry.embedded.session import EmbeddedRegistry
from registry.embedded.tree import Draft, KeptSession, Tree, new_root
from registry.errors import (
    RegistryClosedError,
    RegistryError,
    RegistryFullError,
    RegistryStorageError,
    SessionExpiredError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from registry.embedded.tree import NodeChange


logger = logging.getLogger(__name__)

T = TypeVar("T")

DEFAULT_SESSION_TIMEOUT_MS = 18_000  # Kafka's zookeeper.session.timeout.ms
_ROOM_CHECK_INTERVAL_S = 1.0
_NO_SESSION = 0  # of writes of the store itself


class RunBlocking(Protocol):
    """Runs a function that may wait for the disk off the event loop, and returns its result."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Run `work` once."""


class SessionOwner(Protocol):
    """The owner of a session in the store: a registry of this process, or a session of the server."""

    def changed(self, changes: Sequence[NodeChange], /) -> None:
        """Receive the changes that have become visible, in order."""

    def session_ended(self) -> None:
        """Called when the session has ended."""


class _Write:
    """One queued write: the function to apply to a draft, the session, and the caller's future."""

    __slots__ = ("apply", "ends_session", "error", "future", "result", "session_id")

    def __init__(
        self, session_id: int, apply: Callable[[Draft], Any], future: asyncio.Future[Any], ends_session: bool
    ) -> None:
        self.session_id = session_id
        self.apply = apply
        self.future = future
        self.ends_session = ends_session
        self.result: Any = None
        self.error: RegistryError | None = None

    def answer(self, error: RegistryError | None = None) -> None:
        """Answer the caller, unless the caller has stopped waiting."""
        error = error or self.error
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(self.result)


class EmbeddedStore:
    """The tree, its file and its sessions. Create it with `open`. All calls must be on one event loop."""

    def __init__(self, tree: Tree, file: RegistryFile | None, now_ms: Callable[[], int], runner: _Runner) -> None:
        self._tree = tree
        self._file = file  # None: the store is in memory only
        self._now_ms = now_ms
        self._runner = runner
        self._context = contextvars.copy_context()  # of the writer, which works for all sessions
        self._queue: list[_Write] = []
        self._writer: asyncio.Task[None] | None = None  # runs only while there are writes
        self._room_check: asyncio.Task[None] | None = None  # runs only while the disk is full
        self._sessions: dict[int, SessionOwner] = {}  # live sessions by id
        self._ended: list[SessionOwner] = []  # sessions that end with the group being written
        self.kept_sessions: dict[int, KeptSession] = {} if file is None else file.sessions
        """The sessions of the previous process that go on. `adopt_session` must be called for each, once."""
        self._last_session_id = max(now_ms() << 16, *self.kept_sessions, 0)
        self._unwritten = Draft(tree.get, tree.zxid, 0)  # ends of sessions that a full disk has refused
        self._failure: RegistryError | None = None
        self._on_failure: list[Callable[[RegistryError], object]] = []

    @classmethod
    async def open(
        cls,
        path: Path | None = None,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        run_blocking: RunBlocking | None = None,
        keep_sessions: bool = False,
    ) -> EmbeddedStore:
        """Open the store in the file at `path`, which is created if missing; without a path it is in memory only.

        The sessions of the previous process have ended, unless `keep_sessions` lets those of `open_kept_session` go
        on; the ephemeral nodes of ended sessions are deleted. `run_blocking` runs each commit; the default is a thread
        of the store.

        Raises RegistryInUseError, RegistryCorruptError, RegistryStorageError.
        """
        runner = _Runner(run_blocking)
        if path is None:
            return cls(Tree({"/": new_root()}, 0), None, now_ms, runner)
        opened: list[tuple[RegistryFile, Tree]] = []
        try:
            await runner(lambda: opened.append(RegistryFile.open(path, now_ms(), keep_sessions=keep_sessions)))
        except BaseException:
            runner.close()
            for file, _ in opened:  # cancelled while the thread opened the file
                file.close()
            raise
        ((file, tree),) = opened
        store = cls(tree, file, now_ms, runner)
        store._note_if_full()
        return store

    @property
    def tree(self) -> Tree:
        """The durable tree. Do not change it."""
        return self._tree

    @property
    def full(self) -> str | None:
        """Why the store refuses writes that need more space, with the path of the file; None if there is room."""
        return None if self._file is None else self._file.full

    def on_failure(self, call: Callable[[RegistryError], object]) -> None:
        """Call a function with the error when a write fails for good: the store then refuses all further calls."""
        self._on_failure.append(call)

    def session(self, timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS) -> EmbeddedRegistry:
        """Create a registry on this store; `await registry.start()` opens its session.

        The timeout counts only while a test or a simulation has disconnected the registry.
        """
        return EmbeddedRegistry(self, timeout_ms)

    async def close(self) -> None:
        """Finish the queued writes, close the file, and end all sessions. Idempotent."""
        if isinstance(self._failure, RegistryClosedError):
            return
        failed = self._failure
        self._failure = RegistryClosedError("the registry's store is closed")
        while self._writer is not None:
            await asyncio.wait([self._writer])
        if self._room_check is not None:
            self._room_check.cancel()
            await asyncio.wait([self._room_check])
        self._end_all_sessions()
        if self._file is not None and failed is None:
            await self._runner(self._file.close)
        elif self._file is not None:
            self._file.close()
        self._runner.close()

    def open_session(self, owner: SessionOwner) -> int:
        """Start a session and return its id."""
        if self._failure is not None:
            raise self._failure
        self._last_session_id += 1
        self._sessions[self._last_session_id] = owner
        return self._last_session_id

    def open_kept_session(self, owner: SessionOwner, session: KeptSession) -> tuple[int, asyncio.Future[None]]:
        """Start a session that survives a restart of the process. Return its id, and a future: it is durable then.

        If the future has an error, end the session. Raises the store's error if it has failed.
        """
        session_id = self.open_session(owner)

        def apply(draft: Draft) -> None:
            draft.sessions[session_id] = session

        return session_id, self.write(session_id, apply)

    def adopt_session(self, session_id: int, owner: SessionOwner) -> None:
        """Go on with a session of the previous process, which is in `kept_sessions`."""
        self._sessions[session_id] = owner

    def write(self, session_id: int, apply: Callable[[Draft], T], *, ends_session: bool = False) -> asyncio.Future[T]:
        """Queue a write for a session; the future is done when the write is durable and visible.

        `apply` must change the draft and return, or raise a RegistryError: then nothing is changed.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._failure is not None:
            future.set_exception(self._failure)
            return future
        self._queue.append(_Write(session_id, apply, future, ends_session))
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(
                self._write_queue(), name="embedded registry writer", context=self._context
            )
        return future

    def end_session(self, session_id: int) -> asyncio.Future[None]:
        """Queue the end of a session: its earlier writes are applied, later ones are refused."""

        def apply(draft: Draft) -> None:
            self._ended.append(self._sessions.pop(session_id))
            self._remove_session(session_id, draft)

        return self.write(session_id, apply, ends_session=True)

    def delete_ended_nodes(self) -> asyncio.Future[None] | None:
        """Queue the deletion of containers and nodes with a time to live that have ended; None if there are none."""
        if not self._tree.ended(self._now_ms()):
            return None

        def apply(draft: Draft) -> None:
            for path in self._tree.ended(draft.now_ms):
                node = draft.get(path)  # writes of the same group may have changed it
                if node is not None and has_ended(node, draft.now_ms):
                    draft.remove(path)

        return self.write(_NO_SESSION, apply)

    def _remove_session(self, session_id: int, draft: Draft) -> None:
        """Remove a session with its ephemeral nodes."""
        draft.sessions[session_id] = None
        for path in sorted(self._tree.ephemerals(session_id).union(draft.changes)):
            node = draft.get(path)
            if node is not None and node.ephemeral_owner == session_id:
                draft.remove(path)

    async def _write_queue(self) -> None:
        try:
            while self._queue:
                await self._write_group()
        except BaseException as error:
            failure = error if isinstance(error, RegistryStorageError) else None
            self._fail(failure or RegistryStorageError(f"the registry's writer failed: {error!r}"))
            if not isinstance(error, RegistryStorageError):
                raise
        finally:
            self._writer = None

    async def _write_group(self) -> None:
        """Apply and commit all queued writes and make them visible."""
        group, self._queue = self._queue, []
        draft = self._new_draft()
        try:
            for write in group:
                self._apply(write, draft)
            await self._commit(draft)
        except RegistryFullError as error:
            await self._write_one_by_one(group, error)
        except BaseException:
            self._queue = group + self._queue  # `_fail` answers them
            raise
        else:
            self._show(draft, group)
        self._note_if_full()

    async def _write_one_by_one(self, group: list[_Write], full: RegistryFullError) -> None:
        """Commit the writes of a group that may use the reserve, each on its own, and refuse the others.

        Small commits need little of the reserve.
        """
        for index, write in enumerate(group):
            draft = self._new_draft()
            if write.ends_session:
                draft.zxid += 1
                self._remove_session(write.session_id, draft)
            elif not isinstance(write.error, SessionExpiredError):
                self._apply_if_reserved(write, draft, full)
            try:
                await self._commit(draft, use_reserve=True)
            except RegistryFullError as error:
                if write.ends_session:
                    self._unwritten.merge(draft)
                else:
                    write.error = error
                    draft = self._new_draft()
            except BaseException:
                self._queue = group[index:] + self._queue
                raise
            self._show(draft, [write])

    def _apply_if_reserved(self, write: _Write, draft: Draft, full: RegistryFullError) -> None:
        """Apply a write to an empty draft. If it may not use the reserve, refuse it and leave the draft empty.

        It is applied a second time because the writes before it may have been refused meanwhile.
        """
        draft.zxid += 1
        write.error = None
        try:
            write.result = write.apply(draft)
        except RegistryError as error:
            write.error = error
        else:
            if all(may_use_reserve(path, self._tree.get(path), node) for path, node in draft.changes.items()):
                return
            write.error = full
        draft.clear()
        draft.zxid -= 1

    def _new_draft(self) -> Draft:
        return Draft(self._tree.get, self._tree.zxid, self._now_ms())

    async def _commit(self, draft: Draft, *, use_reserve: bool = False) -> None:
        """Write the changes to the file. A new zxid is written even without changes: clients of the server compare it
        with the last one that they have seen.
        """
        file = self._file
        if file is None or draft.zxid == self._tree.zxid:
            return
        nodes = self._unwritten.changes | draft.changes
        sessions = self._unwritten.sessions | draft.sessions
        await self._runner(lambda: file.write(nodes, draft.zxid, sessions, use_reserve=use_reserve))
        self._unwritten.clear()

    def _show(self, draft: Draft, writes: list[_Write]) -> None:
        """Make a committed draft visible, and answer the writes."""
        self._tree.merge(draft)
        if any(write.ends_session for write in writes):
            ended, self._ended = self._ended, []
            for owner in ended:
                owner.session_ended()
        for write in writes:
            write.answer()
        for owner in self._sessions.values():
            owner.changed(draft.history)

    def _note_if_full(self) -> None:
        if self.full is not None and self._room_check is None:
            logger.error("%s: only writes that make room are accepted until the disk has room", self.full)
            self._room_check = asyncio.create_task(self._look_for_room(), name="embedded registry room check")

    async def _look_for_room(self) -> None:
        """Check once a second whether the disk has room, until it does."""
        file = self._file
        assert file is not None
        while file.full is not None:
            await asyncio.sleep(_ROOM_CHECK_INTERVAL_S)
            await self._runner(file.look_for_room)
        logger.info("%s: the disk has room, all writes are accepted", file.path)
        self._room_check = None

    def _apply(self, write: _Write, draft: Draft) -> None:
        if write.session_id != _NO_SESSION and write.session_id not in self._sessions:
            write.error = SessionExpiredError("the session has expired")
            return
        draft.zxid += 1
        # What raises changes nothing. The end of a session never raises, and looks at the changes of the whole group.
        own = draft if write.ends_session else draft.nested()
        try:
            write.result = write.apply(own)
        except RegistryError as error:
            draft.zxid -= 1
            write.error = error
        else:
            if own is not draft:
                draft.merge(own)

    def _fail(self, error: RegistryError) -> None:
        if self._failure is None:
            self._failure = error
            for call in self._on_failure:
                call(error)
        queue, self._queue = self._queue, []
        for write in queue:
            write.answer(error)
        self._end_all_sessions()

    def _end_all_sessions(self) -> None:
        ended = [*self._ended, *self._sessions.values()]
        self._ended, self._sessions = [], {}
        for owner in ended:
            owner.session_ended()


class _Runner:
    """Runs blocking work with the injected function, or in its own thread, which the first call starts."""

    def __init__(self, injected: RunBlocking | None) -> None:
        self._injected = injected
        self._thread: ThreadPoolExecutor | None = None

    async def __call__(self, work: Callable[[], T]) -> T:
        if self._injected is not None:
            return await self._injected(work)
        if self._thread is None:
            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedded-registry")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=True)
