"""The table of APIs in docs/compatibility.md is made from the API table, and fresh."""

from pathlib import Path

import pytest

from broker.requests import api_docs
from broker.requests.api_table import API_TABLE

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "compatibility.md"


def test_the_table_is_up_to_date():
    text = DOCUMENT.read_text()
    assert api_docs.with_table(text) == text, "run: python -m broker.requests.api_docs docs/compatibility.md"


def test_it_has_a_row_for_every_api():
    rows = list(api_docs.table())[2:]
    assert len(rows) == len(API_TABLE)
    assert "| Produce | 0 | 0 to 11 |  |" in rows


def test_the_rest_of_the_document_is_kept(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(f"before\n{api_docs.BEGIN}\nold\n{api_docs.END}\nafter\n")
    api_docs.main(path)
    once = path.read_text()
    assert once.startswith("before\n")
    assert once.endswith("\nafter\n")
    assert "old" not in once
    api_docs.main(path)
    assert path.read_text() == once


def test_a_document_without_markers_is_not_written():
    with pytest.raises(ValueError, match="must be in the document"):
        api_docs.with_table("nothing here")
