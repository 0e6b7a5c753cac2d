"""The comparison with other tools in docs/cli.md: its commands and options exist, and no command is missing."""

import re

from typer.main import get_command

from ottla.app import COMMANDS, app, load_command
from support.broker import ROOT

_ROW = re.compile(r"^\| (?P<task>[^|*]+) \| (?P<ottla>[^|]+) \|[^|]+\|[^|]+\|[^|]+\|$", flags=re.MULTILINE)


def rows():
    """The tasks, and what is in the column of `ottla`."""
    section = (ROOT / "docs" / "cli.md").read_text().partition("\n## Compared with other tools\n")[2]
    found = {row["task"]: row["ottla"] for row in _ROW.finditer(section) if row["task"] != "Task"}
    assert len(found) > 50
    return found


def find(words):
    """The command of these words, and the words that are its options. Raises KeyError for a name that is no command."""
    command = load_command(words[0])
    for position, word in enumerate(words[1:], 1):
        if word.startswith("-"):
            return command, words[position:]
        command = command.commands[word]
    return command, []


def test_commands_and_options_exist():
    for task, text in rows().items():
        command = get_command(app)
        for words in map(str.split, re.findall(r"`([^`]+)`", text)):
            if words == ["--json"]:
                continue
            options = words
            if not words[0].startswith("-"):
                command, options = find(words)
            known = {name for parameter in command.params for name in parameter.opts}
            assert set(options) <= known, task


def test_every_command_has_a_task():
    def leaves(words, command):
        subcommands = getattr(command, "commands", {})
        if not subcommands or command.invoke_without_command:
            yield " ".join(words)
        for name, subcommand in subcommands.items():
            yield from leaves((*words, name), subcommand)

    text = " ".join(rows().values())
    missing = [
        command
        for name in COMMANDS
        for command in leaves((name,), load_command(name))
        if re.search(rf"`{command}[` ]", text) is None
    ]
    assert missing == []


def test_what_is_missing_has_a_reason():
    assert [task for task, text in rows().items() if re.fullmatch(r"no[:\s]*|–|-", text)] == []
