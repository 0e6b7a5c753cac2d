"""Aliases of commands, and names that are nearly right."""

import pytest


@pytest.mark.parametrize(
    "words",
    [("topics", "ls"), ("topic", "list"), ("topic", "ls"), ("group", "ls"), ("profiles", "ls")],
    ids=" ".join,
)
def test_aliases(on, words):
    usage = on(*words, "--help").out
    plural = {"topic": "topics", "group": "groups", "profiles": "profile"}.get(words[0], words[0])
    assert f"Usage: ottla {plural} list" in usage
    on(*words, "--json")


def test_a_command_has_its_own_name_before_an_alias(ottla):
    assert "Usage: ottla zk ls" in ottla("zk", "ls", "--help").out
    assert "Usage: ottla broker" in ottla("broker", "--help").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("topcis", "list"), "ottla: No such command 'topcis' (did you mean topics?)\n"),
        (("consum",), "ottla: No such command 'consum' (did you mean consume?)\n"),
        (("topics", "crate"), "ottla: No such command 'crate' (did you mean create?)\n"),
        (("topics", "nosuch"), "ottla: No such command 'nosuch'; `ottla topics --help` lists the commands\n"),
        (
            ("topics", "--json", "list"),
            (
                "ottla: No such option: --json; an option of a command stands after the command:"
                " `ottla topics COMMAND --json`\n"
            ),
        ),
        (("--profil", "x", "topics"), "ottla: No such option: --profil (did you mean --profile?)\n"),
        (("xyz",), "ottla: No such command 'xyz'; `ottla --help` lists the commands\n"),
    ],
    ids=str,
)
def test_an_unknown_name_names_a_near_one(ottla, words, message):
    assert ottla(*words, code=1).err == message
