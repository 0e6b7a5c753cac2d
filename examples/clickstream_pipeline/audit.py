"""Whether a run adds up: what was produced is in the files or among the dead letters, each record once, and so on."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from examples.clickstream_pipeline.clicks import Incident, Kind
from ottla import ConsumerRecord

NOT_JSON = "not JSON"
SURE_OF_ALERT = {"error_rate": ("clicks", 120), "cart_abandonment": ("checkouts", 15)}
"""What a window in an incident must have: somewhat more than the job asks, so that chance is no excuse."""


class Alert(NamedTuple):
    """A record of the topic of alerts. Times are ms since the epoch; `sent_ms` is real time, the others event time."""

    name: str
    rate: float
    limit: float
    start_ms: int
    end_ms: int
    sent_ms: int

    @classmethod
    def of(cls, record: ConsumerRecord) -> "Alert":
        """The alert in a record."""
        fields: dict[str, Any] = json.loads(record.value)
        start, end = (int(datetime.fromisoformat(fields[name]).timestamp() * 1000) for name in ("start", "end"))
        return cls(fields["name"], fields["rate"], fields["limit"], start, end, record.timestamp)


class Check(NamedTuple):
    """One thing that must hold, and whether it does."""

    what: str
    holds: bool
    found: str


class Audit:
    """What a run has left behind, counted. Tables are those of the queries `events`, `page_views`, `conversion`."""

    def __init__(
        self,
        sent: Counter[Kind],
        acknowledged: int,
        events: pa.Table,
        page_views: pa.Table,
        conversion: pa.Table,
        dead_letters: Sequence[ConsumerRecord],
        alerts: Sequence[Alert],
        wrong: Sequence[Incident],
    ) -> None:
        self.sent = sent
        self.produced = acknowledged
        self.parsed: int = events.num_rows
        self.dead_lettered = len(dead_letters)
        self.windows: int = conversion.num_rows
        self.alerts = alerts
        self._events = events
        self._page_views = page_views
        self._conversion = conversion
        self._dead_letters = [{name: (value or b"").decode() for name, value in one.headers} for one in dead_letters]
        self._wrong = wrong

    @property
    def reasons(self) -> Counter[str]:
        """Dead letters by their reason."""
        return Counter(headers["reason"] for headers in self._dead_letters)

    @property
    def dropped(self) -> int:
        """Clicks that came too late for their window."""
        return self._without_closing - _sum(self._conversion["clicks"])

    @property
    def _without_closing(self) -> int:
        return self.parsed - 1  # the closing click's window stays open

    def checks(self) -> list[Check]:
        """Everything that must hold."""
        return [*self._checks_of_records(), *self._checks_of_windows(), *self._checks_of_alerts()]

    def _checks_of_records(self) -> list[Check]:
        sent = sum(self.sent.values())
        clicks = self.sent[Kind.CLICK] + self.sent[Kind.TOO_LATE]
        places = self._places()
        once = sum(places.values()) == len(places)
        ends = Counter(partition for partition, _ in places)
        dense = all(offset < ends[partition] for partition, offset in places)
        not_json = self.reasons[NOT_JSON]
        return [
            _equal("sent = acknowledged", sent, self.produced),
            _equal("produced = parsed + dead-lettered", self.produced, self.parsed + self.dead_lettered),
            _equal("clicks sent = parsed", clicks, self.parsed),
            _equal("records that are no JSON = dead letters that say so", self.sent[Kind.NOT_JSON], not_json),
            Check("no record twice", once, f"{sum(places.values()):,} records, {len(places):,} places in the topic"),
            Check("no record missing", dense, f"{len(ends)} partitions"),
        ]

    def _places(self) -> Counter[tuple[int, int]]:
        """Partition and offset of every record that was parsed or dead-lettered."""
        columns = (self._events["partition"].to_pylist(), self._events["offset"].to_pylist())
        places = Counter(zip(*columns, strict=True))
        places.update((int(one["partition"]), int(one["offset"])) for one in self._dead_letters)
        return places

    def _checks_of_windows(self) -> list[Check]:
        too_late = self.sent[Kind.TOO_LATE]
        viewed = self._without_closing - _sum(self._page_views["views"])
        return [
            Check(
                "windows lack no click that came in time", 0 <= self.dropped <= too_late, _late(self.dropped, too_late)
            ),
            Check("neither do windows of pages", 0 <= viewed <= too_late, _late(viewed, too_late)),
            _distinct("no window twice", self._conversion, ["start"]),
            _distinct("no page twice in a window", self._page_views, ["start", "page"]),
        ]

    def _checks_of_alerts(self) -> list[Check]:
        names = Counter((alert.name, alert.start_ms) for alert in self.alerts)
        due, allowed = set(), set()
        for window in self._conversion.to_pylist():
            start, end = (int(window[name].timestamp() * 1000) for name in ("start", "end"))
            for one in self._wrong:
                column, least = SURE_OF_ALERT[one.name]
                if start >= one.start_ms and end <= one.end_ms and window[column] >= least:
                    due.add((one.name, start))
                if start < one.end_ms and end > one.start_ms:
                    allowed.add((one.name, start))
        return [
            _equal("no alert twice", len(names), sum(names.values())),
            _equal("windows within an incident that have their alert", len(due), len(due & set(names))),
            _equal("alerts without an incident", 0, len(set(names) - allowed)),
        ]


def _sum(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)


def _equal(what: str, expected: int, found: int) -> Check:
    return Check(what, expected == found, f"{expected:,}" if expected == found else f"{expected:,} ≠ {found:,}")


def _late(dropped: int, too_late: int) -> str:
    return f"{dropped:,} dropped, {too_late:,} sent too late"


def _distinct(what: str, table: pa.Table, columns: list[str]) -> Check:
    distinct = table.group_by(columns).aggregate([]).num_rows
    return Check(what, distinct == table.num_rows, f"{table.num_rows:,} rows, {distinct:,} distinct")
