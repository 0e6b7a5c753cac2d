"""The table that is shown while the demo runs: what is sent, and how far each query is."""

from datetime import UTC, datetime

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from examples.clickstream_pipeline.query_progress import QUERIES, QueryProgress

LINE_EVERY_S = 5.0


class LiveTable:
    """Renders as a table; `line` is the same on one line, for where there is no terminal."""

    def __init__(self, progress: QueryProgress) -> None:
        self._progress = progress
        self.state = "starting"
        self.sent = 0
        self.sent_per_s = 0.0
        self.alerts: list[str] = []

    def __rich__(self) -> RenderableType:
        if self.sent == 0:
            return Text(self._starting())
        table = Table(title=f"{self.state}: {self.sent:,} records sent, {self.sent_per_s:,.0f}/s", title_justify="left")
        table.add_column("query")
        for name in ("batch", "batch time", "rows", "rows/s", "lag", "watermark"):
            table.add_column(name, justify="right")
        for query in QUERIES:
            batch = self._progress.latest(query)
            rows = self._progress.rows[query]
            if batch is None:
                table.add_row(query, "", "", "", "", f"{self.sent - rows:,}", "")
                continue
            table.add_row(
                query,
                str(batch.number),
                f"{batch.duration_s:.1f} s",
                f"{rows:,}",
                f"{batch.rows_per_s:,.0f}",
                f"{max(self.sent - rows, 0):,}",
                _clock(batch.watermark_s),
            )
        return Group(table, *(Text(f"alert: {alert}", style="red") for alert in self.alerts[-3:]))

    def line(self) -> str:
        """The same in a line."""
        if self.sent == 0:
            return self._starting()
        behind = ", ".join(f"{query} {max(self.sent - rows, 0):,}" for query, rows in self._progress.rows.items())
        return f"{self.state}: {self.sent:,} sent ({self.sent_per_s:,.0f}/s); lag: {behind}; {len(self.alerts)} alerts"

    def _starting(self) -> str:
        """What there is to say before the first record is sent: all figures are 0."""
        running = sum(self._progress.latest(query) is not None for query in QUERIES)
        return f"Spark is starting: {running} of {len(QUERIES)} queries run"


def _clock(event_s: float) -> str:
    return datetime.fromtimestamp(event_s, UTC).strftime("%H:%M:%S") if event_s > 0 else ""


def say(console: Console, words: str) -> None:
    """A line for people."""
    console.print(words, highlight=False, soft_wrap=True)
