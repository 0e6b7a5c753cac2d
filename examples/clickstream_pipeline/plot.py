"""A picture of a run: records in and out, how far the queries were behind, when alerts went out."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from examples.clickstream_pipeline.audit import Alert
from examples.clickstream_pipeline.query_progress import Batch

IN, OUT, LAG = "#4477aa", "#ee7733", "#228833"
COLOURS = {"error_rate": "#cc3311", "cart_abandonment": "#aa3377"}
THOUSANDS = FuncFormatter(lambda value, _: f"{value:,.0f}")
SAMPLES_PER_POINT = 2  # of the rate: it takes some time to be one
MARKERS = {"error_rate": "v", "cart_abandonment": "D"}


class Sample(NamedTuple):
    """A moment of a run: seconds since the epoch, records acknowledged so far, and how many the slowest query lacks."""

    at_s: float
    sent: int
    lag: int


class Span(NamedTuple):
    """Something was wrong in the shop, in seconds since the epoch."""

    name: str
    start_s: float
    end_s: float


def draw(
    path: Path, samples: Sequence[Sample], batches: Sequence[Batch], alerts: Sequence[Alert], spans: Sequence[Span]
) -> None:
    """Write a PNG. `batches` are those of the query that writes the clicks."""
    zero_s = samples[0].at_s
    figure = Figure(figsize=(11, 7.5), dpi=110, layout="constrained")
    rates, lags, marks = figure.subplots(3, 1, sharex=True, height_ratios=(3, 2.4, 1.1))
    figure.suptitle("Clicks through Spark, read and written by ottla", fontweight="bold")
    _draw_rates(rates, samples, batches, zero_s)
    _draw_lag(lags, samples, zero_s)
    _draw_alerts(marks, alerts, zero_s)
    for axes in (rates, lags, marks):
        for span in spans:
            axes.axvspan(span.start_s - zero_s, span.end_s - zero_s, color=COLOURS[span.name], alpha=0.09, lw=0)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#dddddd", lw=0.7)
        axes.set_axisbelow(True)
    for row, span in enumerate(spans):  # in rows of their own, as the spans of a short run are narrow
        label = f"incident: {_words(span.name)}"
        place = (span.start_s - zero_s, 0.97 - 0.07 * row)
        rates.annotate(label, place, xycoords=("data", "axes fraction"), va="top", color=COLOURS[span.name])
    marks.set_xlabel("seconds since the first click was sent")
    marks.set_xlim(left=0)
    figure.align_ylabels([rates, lags])
    figure.savefig(path)


def _draw_rates(axes: Axes, samples: Sequence[Sample], batches: Sequence[Batch], zero_s: float) -> None:
    sent = [
        (after.at_s - zero_s, (after.sent - before.sent) / (after.at_s - before.at_s))
        for before, after in pairwise(samples[::SAMPLES_PER_POINT])
    ]
    axes.plot(*zip(*sent, strict=True), color=IN, lw=1.8, label="in: acknowledged by brokers")
    edges, rates = [0.0], []
    for batch in batches:
        end = batch.ended_at_s - zero_s
        if batch.rows and end > edges[-1]:
            rates.append(batch.rows / (end - edges[-1]))
            edges.append(end)
    if rates:
        axes.stairs(rates, edges, color=OUT, lw=1.8, label="out: read by the query events, mean of each batch")
    axes.set_ylabel("records per second")
    axes.set_ylim(0, 1.3 * max([rate for _, rate in sent] + rates))
    axes.yaxis.set_major_formatter(THOUSANDS)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), frameon=False, ncols=2, borderaxespad=0)


def _draw_lag(axes: Axes, samples: Sequence[Sample], zero_s: float) -> None:
    times, lags = [one.at_s - zero_s for one in samples], [one.lag for one in samples]
    axes.fill_between(times, lags, color=LAG, alpha=0.18, lw=0)
    axes.plot(times, lags, color=LAG, lw=1.8)
    axes.set_ylabel("lag of the slowest query\n(records not read yet)")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(THOUSANDS)


def _draw_alerts(axes: Axes, alerts: Sequence[Alert], zero_s: float) -> None:
    """A mark for each second in which alerts of a name were sent, and how many."""
    names = list(COLOURS)
    moments = Counter((alert.name, alert.sent_ms // 1000) for alert in alerts)
    for (name, sent_s), count in moments.items():
        place = (sent_s + 0.5 - zero_s, names.index(name))
        axes.plot(*place, MARKERS[name], color=COLOURS[name], ms=7)
        axes.annotate(f"{count}", place, xytext=(7, 0), textcoords="offset points", va="center", color=COLOURS[name])
    axes.set_yticks(range(len(names)), [f"{_words(name)}\nalerts" for name in names])
    axes.set_ylim(-0.6, len(names) - 0.4)


def _words(name: str) -> str:
    return name.replace("_", " ")
