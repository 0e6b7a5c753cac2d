"""Writes the table of APIs in docs/compatibility.md: `python -m broker.requests.api_docs docs/compatibility.md`.

The table is between two marks and is made from `api_table`; the rest of the document does not change.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from broker.requests.api_table import API_TABLE
from protocol.api_keys import ApiKey

BEGIN = f"<!-- apis: made by python -m {__package__}.api_docs -->"
END = "<!-- /apis -->"

AMONG_BROKERS = frozenset({ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA})


def table() -> Iterator[str]:
    """The lines of the table, without marks."""
    yield "| API | key | versions | |"
    yield "|---|---|---|---|"
    for api in sorted(API_TABLE, key=lambda api: api.key):
        remark = "among brokers" if api.key in AMONG_BROKERS else ""
        yield f"| {api.name} | {int(api.key)} | {api.min_version} to {api.max_version} | {remark} |"


def with_table(text: str) -> str:
    """The document with a new table. Raises ValueError if the marks around the table are missing."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{BEGIN} and {END} must be in the document")
    return "\n".join([before + begin, *table(), end + after])


def main(path: Path) -> None:
    """Replace the table in the document at `path`."""
    path.write_text(with_table(path.read_text()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
