"""The fields of `--json`: docs/cli.md lists them, and the commands print them.

Every other test of the folder that uses `--json` checks that the fields it sees are listed: see `ottla` in conftest.py.
"""

import itertools

import pytest

from ottla.app import COMMANDS, load_command
from support.json_fields import documented_fields, not_printed, printed_fields

READS_JSON = {"produce"}


def commands_with_json():
    def walk(command, words):
        if any("--json" in parameter.opts for parameter in command.params):
            yield " ".join(words)
        for name, subcommand in getattr(command, "commands", {}).items():
            yield from walk(subcommand, (*words, name))

    return {found for name in COMMANDS for found in walk(load_command(name), (name,))} - READS_JSON


def test_every_command_with_json_is_listed():
    assert sorted(documented_fields()) == sorted(commands_with_json())


@pytest.fixture
def example(on):
    """The name of a topic with records and a setting of its own, and of a group that has offsets for it."""
    name = "json.example"
    on("topics", "create", name, "-p", 1, "-c", "max.message.bytes=2000000", "--if-not-exists")
    on("perf", "produce", name, "--records", 10)
    on("groups", "reset-offsets", name, "--topic", name, "--to-latest", "--execute")
    return name


EXAMPLES = {
    "topics list": (),
    "topics create": ("{new}",),
    "topics trim": ("{topic}", "--to-end", "--dry-run"),
    "configs describe": ("--topic", "{topic}"),
    "groups list": ("--lag",),
    "groups reset-offsets": ("{topic}", "--all-topics", "--to-earliest"),
    "cluster describe": (),
    "brokers list": (),
    "log-dirs": ("{topic}",),
    "api-versions": (),
    "perf produce": ("{topic}", "--records", "10"),
    "perf consume": ("{topic}", "--records", "10"),
}
"""Arguments of commands for which one broker is enough. The tests of the other commands have their own assertions."""
names = itertools.count(1)


@pytest.mark.parametrize("command", EXAMPLES)
def test_every_field_is_printed(on, example, command):
    given = [word.format(topic=example, new=f"json.new{next(names)}") for word in EXAMPLES[command]]
    printed = on(*command.split(), *given, "--json").out
    assert not_printed(command, printed_fields(printed)) == [], printed
