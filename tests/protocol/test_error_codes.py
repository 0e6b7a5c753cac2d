"""The error codes against the recorded table."""

import csv

import pytest

from protocol.error_codes import ErrorCode
from support.reference import REFERENCE


def test_codes_and_their_meaning_are_those_of_the_table():
    with (REFERENCE / "tables" / "error-codes.tsv").open() as table:
        rows = list(csv.DictReader(table, delimiter="\t"))
    known = [(int(row["code"]), row["name"]) for row in rows]
    assert [(code.value, code.name) for code in ErrorCode] == [*known, (128, "INVALID_REGULAR_EXPRESSION")]  # of 4.0
    for row in rows:
        code = ErrorCode(int(row["code"]))
        assert code.retriable == (row["retriable"] == "true"), row
        assert code.invalid_metadata == (row["invalid_metadata"] == "true"), row


def test_unknown_codes_are_no_member():
    with pytest.raises(ValueError, match="-7"):
        ErrorCode(-7)
