"""What a failed run tells: its anomalies, and what the journals say around them. CI does not keep the journals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from support.transfers.anomaly import Anomaly
from support.transfers.history import History
from support.transfers.journal import lines_of

MOST_ANOMALIES = 20
MOST_LINES = 150
LEFT_OUT = ("send", "ack")
"""The events of which there are too many."""


def report(directory: Path, history: History, found: Sequence[Anomaly]) -> str:
    """The anomalies in the history of the journals in a directory, one a line, and lines of the journals."""
    anomalies = [str(one) for one in found[:MOST_ANOMALIES]]
    return "\n".join([f"{len(found)} anomalies:", *anomalies, *_around(directory, history, found)])


def _around(directory: Path, history: History, found: Sequence[Anomaly]) -> Iterator[str]:
    """Yield what all producers with the named transactions' ids note, from the first one's begin to the last one's end.

    A line is: milliseconds, client, what it has noted.
    """
    named = {operation for one in found for operation in one.operations}
    involved = [one for one in history.transactions if str(one) in named]
    if not involved:
        return
    ids = {one.transactional_id for one in involved}
    first_ns = min(one.began_ns for one in involved)
    last_ns = max(one.ended_ns or one.ending_ns or one.began_ns for one in involved)
    lines = sorted(
        (when, client, noted)
        for client in {start.client for start in history.starts if start.transactional_id in ids}
        for when, *noted in lines_of(directory / f"{client}.jsonl")
        if first_ns <= when <= last_ns and noted[0] not in LEFT_OUT
    )
    for when, client, noted in lines[-MOST_LINES:]:
        yield f"{(when - first_ns) / 1e6:8.1f} {client} {json.dumps(noted)}"
