"""The example of clicks: a short run of the whole demo as a process; what its parts say of runs that do not add up."""

import io
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from itertools import islice

import psutil
import pyarrow as pa
import pytest
from rich.console import Console

from client.consumer.fetched import ConsumerRecord
from examples.clickstream_pipeline.audit import Alert, Audit
from examples.clickstream_pipeline.clicks import START_MS, Incident, Kind, clickstream, incidents
from examples.clickstream_pipeline.live_table import LiveTable
from examples.clickstream_pipeline.query_progress import Batch, QueryProgress
from examples.clickstream_pipeline.spark_files import committed_files
from support.broker import ROOT
from support.counts import full_only
from support.deadlines import DEADLINE_S
from support.polling import until_blocking

MINUTE_MS = 60_000


def start_demo(folder, *arguments):
    command = [sys.executable, "-m", "examples.clickstream_pipeline", "--output", str(folder / "out"), *arguments]
    with (folder / "said").open("w") as out:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=os.environ | {"COLUMNS": "200"},
            preexec_fn=heed_sigint,
        )


def heed_sigint():
    """What a shell starts in the background ignores SIGINT, and so would what that starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def descendants(pid):
    return psutil.Process(pid).children(recursive=True)


def still_there(processes):
    return [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


@full_only
@pytest.mark.timeout(600)
def test_the_results_of_a_short_run_are_correct(tmp_path):
    demo = start_demo(tmp_path, "--duration", "8", "--rate", "200", "--speed", "60", "--trigger", "1")
    try:
        assert demo.wait(5 * DEADLINE_S) == 0, (tmp_path / "said").read_text()
    finally:
        demo.kill()
        demo.wait()
    out = tmp_path / "out"
    summary = json.loads((out / "summary.json").read_text())
    said = (tmp_path / "said").read_text()
    assert summary["produced"] == summary["parsed"] + summary["dead_lettered"] > 1000
    assert set(summary["reasons"]) == {"not JSON", "does not fit the schema", "event_id is missing"}
    assert summary["windows"] >= 8
    assert summary["alerts"] >= 1
    assert len(summary["checks"]) == 13
    assert all(summary["checks"].values())
    assert (out / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert str(out) in said
    assert "lag: events" in said
    assert "NOT" not in said
    assert said.splitlines()[-1] == f"plot: {out / 'plot.png'}"


@pytest.mark.timeout(300)
def test_a_stop_at_any_time_leaves_no_process_running(tmp_path):
    demo = start_demo(tmp_path)
    started = []

    def has_begun():
        assert demo.poll() is None, (tmp_path / "said").read_text()
        started[:] = descendants(demo.pid)
        return "starting Spark" in (tmp_path / "said").read_text() and len(started) >= 5

    try:
        until_blocking(has_begun, "the servers run and Spark is being started")
        demo.send_signal(signal.SIGINT)
        assert demo.wait(DEADLINE_S) == 130, (tmp_path / "said").read_text()
    finally:
        demo.kill()
        demo.wait()
        left = still_there(started)
        for one in left:
            one.kill()
    assert left == []


def test_a_folder_that_is_not_empty_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").touch()
    demo = start_demo(tmp_path)
    assert demo.wait(DEADLINE_S) == 2
    assert "must not be there yet, or be empty" in (tmp_path / "said").read_text()


def test_no_figures_are_shown_before_the_first_record(tmp_path):
    """Spark takes most of a minute to start: no table of zeros in the meantime."""

    def shown(table):
        console = Console(width=200, file=io.StringIO())
        console.print(table)
        return console.file.getvalue()

    progress = QueryProgress(tmp_path / "progress.jsonl")
    table = LiveTable(progress)
    progress.batches["events"].append(Batch("events", 0, 1.0, 0.5, 0, 0.0, 0))
    assert shown(table).strip() == table.line() == "Spark is starting: 1 of 5 queries run"
    table.state, table.sent = "sending", 1234
    assert "sending: 1,234 records sent" in shown(table)
    assert table.line().startswith("sending: 1,234 sent (0/s); lag: events 1,234")


def test_one_seed_gives_one_stream():
    wrong = incidents(START_MS, 10 * MINUTE_MS)
    first, again, other = (list(islice(clickstream(seed, 20, wrong), 12_000)) for seed in (7, 7, 8))
    assert first == again
    assert first != other
    assert {record.kind for record in first} == set(Kind)
    assert [record.send_ms for record in first] == sorted(record.send_ms for record in first)


def record(partition, offset, reason="not JSON"):
    headers = {"reason": reason, "topic": "clicks", "partition": str(partition), "offset": str(offset)}
    pairs = tuple((name, value.encode()) for name, value in headers.items())
    return ConsumerRecord("clicks.dead-letters", 0, 0, offset, 0, b"k", b"{", pairs)


def alert(name, minute, number=1):
    start_ms = START_MS + minute * MINUTE_MS
    return Alert(name, 0.5, 0.1, start_ms, start_ms + number * MINUTE_MS, 0)


def audit(**changes):
    """The audit of a small run that adds up, but for what `changes` says."""
    seconds = pa.timestamp("us", tz="UTC")
    starts = [(START_MS + minute * MINUTE_MS) * 1000 for minute in range(3)]
    run = {
        "sent": Counter({Kind.CLICK: 360, Kind.TOO_LATE: 1, Kind.NOT_JSON: 1, Kind.NOT_A_CLICK: 1}),
        "acknowledged": 363,
        "events": pa.table({"partition": [0] * 181 + [1] * 180, "offset": [*range(181), *range(180)]}),
        "page_views": pa.table({"start": starts, "page": ["/"] * 3, "views": [120, 120, 120]}),
        "conversion": pa.table(
            {
                "start": pa.array(starts, seconds),
                "end": pa.array([start + MINUTE_MS * 1000 for start in starts], seconds),
                "clicks": [120, 120, 120],
                "checkouts": [15, 15, 15],
            }
        ),
        "dead_letters": [record(0, 181), record(1, 180, "event_id is missing")],
        "alerts": [alert("error_rate", 1)],
        "wrong": [Incident("error_rate", START_MS + MINUTE_MS, START_MS + 2 * MINUTE_MS)],
    }
    return Audit(**(run | changes))


def failed(**changes):
    return {check.what for check in audit(**changes).checks() if not check.holds}


def test_a_correct_run_passes():
    assert failed() == set()
    assert audit().dropped == 0


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"acknowledged": 362}, "sent = acknowledged"),
        ({"dead_letters": [record(0, 181)]}, "produced = parsed + dead-lettered"),
        ({"dead_letters": [record(0, 181), record(0, 181)]}, "no record twice"),
        ({"dead_letters": [record(0, 181), record(1, 181)]}, "no record missing"),
        ({"dead_letters": [record(0, 181), record(1, 180)]}, "records that are no JSON = dead letters that say so"),
        ({"alerts": []}, "windows within an incident that have their alert"),
        ({"alerts": [alert("error_rate", 1)] * 2}, "no alert twice"),
        ({"alerts": [alert("error_rate", 1), alert("error_rate", 0)]}, "alerts without an incident"),
        ({"alerts": [alert("error_rate", 1), alert("cart_abandonment", 1)]}, "alerts without an incident"),
    ],
)
def test_each_planted_error_is_found(changes, what):
    assert what in failed(**changes)


def test_windows_without_some_clicks_are_found():
    short = audit()._conversion.set_column(2, "clicks", [[120, 120, 118]])
    assert failed(conversion=short) == {"windows lack no click that came in time"}
    twice = pa.concat_tables([audit()._page_views.slice(0, 1)] * 3)
    assert failed(page_views=twice) == {"no page twice in a window"}
    no_traffic = audit()._conversion.set_column(2, "clicks", [[241, 0, 119]])
    assert failed(conversion=no_traffic, alerts=[]) == set()


def test_only_files_named_in_the_log_count(tmp_path):
    log = tmp_path / "_spark_metadata"
    log.mkdir()

    def write(name, *files):
        lines = [json.dumps({"path": f"file://{tmp_path}/{file}", "size": 1, "action": "add"}) for file in files]
        (log / name).write_text("\n".join(["v1", *lines]))

    for number in range(9):
        write(str(number), f"part%20{number}")
    write("9.compact", *(f"part%20{number}" for number in range(10)))
    write("10", "part%2010")
    (tmp_path / "part 99").touch()
    assert committed_files(tmp_path) == [tmp_path / f"part {number}" for number in range(11)]
