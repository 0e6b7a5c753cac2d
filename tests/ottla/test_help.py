"""`ottla help`, and the list of commands by subject."""

import re
from pathlib import Path

import pytest

from ottla.app import COMMANDS_BY_SUBJECT

CLI_DOCS = Path(__file__).resolve().parents[2] / "docs" / "cli.md"


@pytest.mark.parametrize(
    "words", [(), ("topics",), ("topics", "create"), ("topic", "ls"), ("broker",), ("help",)], ids=str
)
def test_help_is_the_option_help(ottla, words):
    assert ottla("help", *words).out == ottla(*words, "--help").out


def test_help_of_no_command(ottla):
    assert "No such command 'crate' (did you mean create?)" in ottla("help", "topics", "crate", code=1).err
    assert "No such command 'nosuch'" in ottla("help", "nosuch", code=1).err


def test_commands_are_listed_by_subject(ottla):
    text = ottla("--help").out
    found = {}
    for panel in re.split(r"^╭─ ", text, flags=re.MULTILINE)[2:]:  # the first panel has the options
        found[panel.partition(" ─")[0]] = re.findall(r"^│ ([a-z][a-z-]*) ", panel, flags=re.MULTILINE)
    assert found == {subject: list(commands) for subject, commands in COMMANDS_BY_SUBJECT.items()}


def test_the_documentation_has_the_same_subjects():
    text = CLI_DOCS.read_text().partition("## The commands")[2].partition("##")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.split("|---|---|\n")[1].splitlines()]
    found = {row[0]: re.findall(r"[a-z][a-z-]*(?=\]|`)", row[1]) for row in rows if len(row) == 2}
    assert found == {subject: list(commands) for subject, commands in COMMANDS_BY_SUBJECT.items()}
