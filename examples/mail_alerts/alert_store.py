"""A row for every alert, in SQLite.

    alerts(topic, partition, offset, timestamp_ms, value, state, reason, changed_ms), by (topic, partition, offset)

`state` is "waiting" from before the first attempt to send, then "sent" or "refused" (`reason` says why). To keep the
rows elsewhere, write a class with these four methods.
"""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from examples.mail_alerts.alert import Alert

T = TypeVar("T")

_TABLE = """
CREATE TABLE IF NOT EXISTS alerts (
    topic TEXT NOT NULL, "partition" INTEGER NOT NULL, "offset" INTEGER NOT NULL,
    timestamp_ms INTEGER NOT NULL, value BLOB NOT NULL,
    state TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '', changed_ms INTEGER NOT NULL,
    PRIMARY KEY (topic, "partition", "offset")
) WITHOUT ROWID
"""
_ONE = 'topic = ? AND "partition" = ? AND "offset" = ?'


class AlertStore:
    """One thread does all the work, so statements are in order. `now_ms` tells the time."""

    def __init__(self, path: Path, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="alert store")
        self._database = self._thread.submit(self._open, path).result()

    @staticmethod
    def _open(path: Path) -> sqlite3.Connection:
        database = sqlite3.connect(path, isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(_TABLE)
        database.execute("CREATE INDEX IF NOT EXISTS alerts_by_age ON alerts (changed_ms)")
        return database

    async def _do(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    async def begin(self, alert: Alert) -> bool:
        """Have a row for it; False where it has been dealt with before."""

        def work() -> bool:
            self._database.execute(
                "INSERT OR IGNORE INTO alerts VALUES (?, ?, ?, ?, ?, 'waiting', '', ?)", (*alert, self._now_ms())
            )
            (state,) = self._database.execute(f"SELECT state FROM alerts WHERE {_ONE}", alert[:3]).fetchone()
            return bool(state == "waiting")

        return await self._do(work)

    async def end(self, alert: Alert, state: str, reason: str = "") -> None:
        """It has been dealt with: "sent" or "refused"."""
        await self._do(
            lambda: self._database.execute(
                f"UPDATE alerts SET state = ?, reason = ?, changed_ms = ? WHERE {_ONE}",
                (state, reason, self._now_ms(), *alert[:3]),
            )
        )

    async def purge(self, older_than_ms: int) -> int:
        """Delete the rows of what was dealt with longer ago; how many these were."""
        return await self._do(
            lambda: (
                self._database.execute(
                    "DELETE FROM alerts WHERE changed_ms < ? AND state <> 'waiting'", (self._now_ms() - older_than_ms,)
                ).rowcount
            )
        )

    async def close(self) -> None:
        """When nothing more is to be written."""
        await self._do(self._database.close)
        self._thread.shutdown()
