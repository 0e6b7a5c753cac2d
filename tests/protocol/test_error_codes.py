"""The error codes against the recorded table."""

import csv

import pytest

from protocol.error_codes import ErrorCode, code_name, known_code
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


@pytest.mark.parametrize(
    ("number", "code", "name"),
    [
        (0, ErrorCode.NONE, "NONE"),
        (-1, ErrorCode.UNKNOWN_SERVER_ERROR, "UNKNOWN_SERVER_ERROR"),
        (56, ErrorCode.KAFKA_STORAGE_ERROR, "KAFKA_STORAGE_ERROR"),
        (999, ErrorCode.UNKNOWN_SERVER_ERROR, "unknown error code 999"),
        (-7, ErrorCode.UNKNOWN_SERVER_ERROR, "unknown error code -7"),
    ],
)
def test_every_code_of_an_answer_has_a_name(number, code, name):
    assert known_code(number) is code
    assert code_name(number) == name
