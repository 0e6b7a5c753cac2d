"""The embedded registry: ZooKeeper's tree and semantics in this process, kept in one SQLite file.

`EmbeddedStore` owns the tree, the file and the sessions; `store.session()` gives a Registry
(registry/embedded/session.py). It is the default for one broker, for clusters of brokers in one process and
for simulation.

A write goes through one queue. When the writer is free it takes all that has queued up, works it out in order
on one draft, commits that draft to the file off the event loop, and only then makes it visible, answers the
callers and fires the watches. So writes are applied in the order of the calls, many callers share one fsync,
and nobody ever sees a state that a power cut could take back. Reads are served from memory and never wait.

If a commit fails, the state on disk is not known any more: every caller gets RegistryStorageError, every
session counts as expired (which stops a broker from leading), and the store takes no more work. A full disk is
different, since nothing was written then: the callers get RegistryFullError and may try again. Only the end of a
session cannot be refused; it happens in memory, which is enough: nobody's ephemerals outlive the process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from registry.embedded.session import EmbeddedRegistry
from registry.embedded.tree import Draft, Tree, new_root
from registry.errors import (
    RegistryClosedError,
    RegistryError,
    RegistryFullError,
    RegistryStorageError,
    SessionExpiredError,
)

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path

    from registry.embedded.file import RegistryFile

T = TypeVar("T")

DEFAULT_SESSION_TIMEOUT_MS = 18_000  # Kafka's zookeeper.session.timeout.ms


class RunBlocking(Protocol):
    """Runs a function that may block for the disk, off the event loop, and returns what it returns."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """Run `work` once."""


class _Write:
    """One queued write: what to do on a draft, for which session, and who waits for it."""

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
        """Tell the caller, unless it has stopped waiting."""
        error = error or self.error
        if self.future.done():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(self.result)


class EmbeddedStore:
    """The tree, its file and its sessions. Use `open`; everything runs on one event loop."""

    def __init__(self, tree: Tree, file: RegistryFile | None, now_ms: Callable[[], int], runner: _Runner) -> None:
        self._tree = tree
        self._file = file  # None: nothing is kept
        self._now_ms = now_ms
        self._runner = runner
        self._queue: list[_Write] = []
        self._writer: asyncio.Task[None] | None = None  # runs only while there is something to write
        self._sessions: dict[int, EmbeddedRegistry] = {}  # the live ones, by session id
        self._ended: list[EmbeddedRegistry] = []  # their sessions end with the group being written
        self._last_session_id = now_ms() << 16
        self._failure: RegistryError | None = None

    @classmethod
    async def open(
        cls,
        path: Path | None = None,
        *,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        run_blocking: RunBlocking | None = None,
    ) -> EmbeddedStore:
        """Open the store in the file at `path`, created if missing; without a path nothing is kept.

        Sessions of the process that had the file before are over and their ephemeral nodes gone.
        `run_blocking` runs each commit; by default a thread of the store does.

        Raises RegistryInUseError, RegistryCorruptError, RegistryStorageError.
        """
        runner = _Runner(run_blocking)
        if path is None:
            return cls(Tree({"/": new_root()}, 0), None, now_ms, runner)
        from registry.embedded.file import RegistryFile

        opened: list[tuple[RegistryFile, Tree]] = []
        try:
            await runner(lambda: opened.append(RegistryFile.open(path, now_ms())))
        except BaseException:
            runner.close()
            for file, _ in opened:  # cancelled while the thread was at it
                file.close()
            raise
        ((file, tree),) = opened
        return cls(tree, file, now_ms, runner)

    @property
    def tree(self) -> Tree:
        """What is durable. Read only."""
        return self._tree

    def session(self, timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS) -> EmbeddedRegistry:
        """Make a registry on this store; `await registry.start()` opens its session.

        The timeout counts only while the registry is disconnected (a test or a simulation did that).
        """
        return EmbeddedRegistry(self, timeout_ms)

    async def close(self) -> None:
        """Finish the writes under way and close the file; sessions still open are over. Idempotent."""
        if isinstance(self._failure, RegistryClosedError):
            return
        failed = self._failure
        self._failure = RegistryClosedError("the registry's store is closed")
        while self._writer is not None:
            await asyncio.wait([self._writer])
        self._end_all_sessions()
        if self._file is not None and failed is None:
            await self._runner(self._file.close)
        elif self._file is not None:
            self._file.close()
        self._runner.close()

    def open_session(self, registry: EmbeddedRegistry) -> int:
        """Start a session for the registry and return its id."""
        if self._failure is not None:
            raise self._failure
        self._last_session_id += 1
        self._sessions[self._last_session_id] = registry
        return self._last_session_id

    def write(self, session_id: int, apply: Callable[[Draft], T], *, ends_session: bool = False) -> asyncio.Future[T]:
        """Queue a write for a session; the future has its result once it is durable and visible.

        `apply` either changes the draft and returns, or raises a RegistryError and leaves it alone.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._failure is not None:
            future.set_exception(self._failure)
            return future
        self._queue.append(_Write(session_id, apply, future, ends_session))
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_queue(), name="embedded registry writer")
        return future

    def end_session(self, session_id: int) -> asyncio.Future[None]:
        """Queue the end of a session: what it queued before still happens, nothing after."""

        def apply(draft: Draft) -> None:
            self._ended.append(self._sessions.pop(session_id))
            self._remove_ephemerals(session_id, draft)

        return self.write(session_id, apply, ends_session=True)

    def _remove_ephemerals(self, session_id: int, draft: Draft) -> None:
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
            self._fail(failure or RegistryStorageError(f"the registry's writer died: {error!r}"))
            if not isinstance(error, RegistryStorageError):
                raise
        finally:
            self._writer = None

    async def _write_group(self) -> None:
        """Apply, commit and show all writes that are queued now."""
        group, self._queue = self._queue, []
        draft = Draft(self._tree.get, self._tree.zxid, self._now_ms())
        try:
            for write in group:
                self._apply(write, draft)
            file = self._file
            if file is not None and draft.changes:
                await self._runner(lambda: file.write(draft.changes, draft.zxid))
        except RegistryFullError as error:
            draft = self._refuse(group, error)
        except BaseException:
            self._queue = group + self._queue  # for _fail to answer
            raise
        changes = self._tree.merge(draft)
        ended, self._ended = self._ended, []
        for registry in ended:
            registry.session_ended()
        for write in group:
            write.answer()
        for registry in self._sessions.values():
            registry.changed(changes)

    def _refuse(self, group: list[_Write], error: RegistryFullError) -> Draft:
        """There was no room for a group: what happens of it is that sessions end."""
        draft = Draft(self._tree.get, self._tree.zxid, self._now_ms())
        for write in group:
            if write.ends_session:
                draft.zxid += 1
                self._remove_ephemerals(write.session_id, draft)
            elif write.error is None:
                write.error = error
        return draft

    def _apply(self, write: _Write, draft: Draft) -> None:
        if write.session_id not in self._sessions:
            write.error = SessionExpiredError("the session has expired")
            return
        draft.zxid += 1
        try:
            write.result = write.apply(draft)
        except RegistryError as error:
            draft.zxid -= 1
            write.error = error

    def _fail(self, error: RegistryError) -> None:
        if self._failure is None:
            self._failure = error
        queue, self._queue = self._queue, []
        for write in queue:
            write.answer(error)
        self._end_all_sessions()

    def _end_all_sessions(self) -> None:
        ended = [*self._ended, *self._sessions.values()]
        self._ended, self._sessions = [], {}
        for registry in ended:
            registry.session_ended()


class _Runner:
    """The injected way to block, or one thread of our own, started at the first commit."""

    def __init__(self, injected: RunBlocking | None) -> None:
        self._injected = injected
        self._thread: ThreadPoolExecutor | None = None

    async def __call__(self, work: Callable[[], T]) -> T:
        if self._injected is not None:
            return await self._injected(work)
        if self._thread is None:
            from concurrent.futures import ThreadPoolExecutor

            self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="embedded-registry")
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def close(self) -> None:
        if self._thread is not None:
            self._thread.shutdown(wait=True)
