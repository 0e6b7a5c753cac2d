"""How far the queries of the job are: what Spark tells of every batch, read from the file that the job appends to."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

QUERIES = ("events", "dead_letters", "page_views", "conversion", "alerts")
IN_WINDOWS = ("page_views", "conversion", "alerts")
"""Those with a watermark."""


class Batch(NamedTuple):
    """One batch of a query. Times are seconds since the epoch; `watermark_s` is event time, 0 where there is none."""

    query: str
    number: int
    ended_at_s: float
    duration_s: float
    rows: int
    watermark_s: float
    dropped: int
    """Groups of rows that came behind the watermark."""

    @property
    def rows_per_s(self) -> float:
        """Rows for each second that it took."""
        return self.rows / self.duration_s if self.duration_s else 0.0


class QueryProgress:
    """All batches so far."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0
        self.batches: dict[str, list[Batch]] = {query: [] for query in QUERIES}
        self.rows = dict.fromkeys(QUERIES, 0)

    def read(self) -> None:
        """Read what the job has appended since."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    break  # it is just being written
                self._at += len(line)
                self._add(_batch(json.loads(line)))

    def _add(self, batch: Batch) -> None:
        self.batches[batch.query].append(batch)
        self.rows[batch.query] += batch.rows

    def latest(self, query: str) -> Batch | None:
        """The last batch of a query."""
        return self.batches[query][-1] if self.batches[query] else None

    def have_read(self, records: int) -> bool:
        """Whether every query has read so many."""
        return all(rows >= records for rows in self.rows.values())

    def is_past(self, event_s: float) -> bool:
        """Whether a batch of every query with windows has run with a watermark behind this event time."""
        found = [self.latest(query) for query in IN_WINDOWS]
        return all(batch is not None and batch.watermark_s > event_s for batch in found)


def _batch(progress: dict[str, Any]) -> Batch:
    duration_s = progress["batchDuration"] / 1000
    watermark = progress.get("eventTime", {}).get("watermark")
    return Batch(
        query=progress["name"],
        number=progress["batchId"],
        ended_at_s=_seconds(progress["timestamp"]) + duration_s,
        duration_s=duration_s,
        rows=sum(source["numInputRows"] for source in progress["sources"]),
        watermark_s=_seconds(watermark) if watermark else 0.0,
        dropped=sum(state["numRowsDroppedByWatermark"] for state in progress["stateOperators"]),
    )


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
