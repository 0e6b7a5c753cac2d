"""Options before and after the command, and which of the bootstrap servers counts."""

import pytest

from ottla.app import load_command
from ottla.command_line import profiles

BEFORE, BETWEEN, AFTER, VARIABLE, PROFILE = ("127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4", "127.0.0.1:5")


@pytest.fixture
def asked(ottla, monkeypatch):
    """Runs a command line and returns the address at which no broker answered."""

    def run(*words, variables=None):
        for name, value in (variables or {}).items():
            monkeypatch.setenv(name, value)
        said = ottla(*words, code=1).err
        return said.partition("no broker answers at ")[2].partition(" ")[0]

    ottla("profile", "create", "one", "-b", PROFILE)
    ottla("profile", "create", "two", "-b", "127.0.0.1:6")
    return run


@pytest.mark.parametrize(
    ("words", "variables", "address"),
    [
        (("-b", BEFORE, "topics", "-b", BETWEEN, "list", "-b", AFTER), {"OTTLA_BOOTSTRAP_SERVER": VARIABLE}, AFTER),
        (("-b", BEFORE, "topics", "-b", BETWEEN, "list"), {"OTTLA_BOOTSTRAP_SERVER": VARIABLE}, BETWEEN),
        (("-b", BEFORE, "topics", "list"), {"OTTLA_BOOTSTRAP_SERVER": VARIABLE}, BEFORE),
        (("-b", BEFORE, "consume", "orders"), {"OTTLA_BOOTSTRAP_SERVER": VARIABLE}, BEFORE),
        (("--bootstrap-server=" + BEFORE, "topics", "list", "--profile", "two"), {}, BEFORE),
        (("topics", "list"), {"OTTLA_BOOTSTRAP_SERVER": VARIABLE, "OTTLA_PROFILE": "two"}, VARIABLE),
        (("topics", "list", "--profile", "two"), {"OTTLA_PROFILE": "one"}, "127.0.0.1:6"),
        (("--profile", "two", "topics", "list"), {"OTTLA_PROFILE": "one"}, "127.0.0.1:6"),
        (("topics", "list", "--profile", "two"), {"OTTLA_BOOTSTRAP_SERVER": VARIABLE}, "127.0.0.1:6"),
        (("--profile", "two", "topics", "list"), {"OTTLA_BOOTSTRAP_SERVER": VARIABLE}, "127.0.0.1:6"),
        (("--profile", "two", "topics", "list", "-b", AFTER), {"OTTLA_BOOTSTRAP_SERVER": VARIABLE}, AFTER),
        (("--profile", "two", "topics", "--profile", "one", "list"), {}, PROFILE),
        (("--profile", "one", "topics", "list", "--profile", "two"), {}, "127.0.0.1:6"),
        (("topics", "list"), {"OTTLA_PROFILE": "two"}, "127.0.0.1:6"),
        (("topics", "list"), {}, PROFILE),
        (("consume", "orders"), {}, PROFILE),
    ],
    ids=str,
)
def test_the_first_of_these_counts(asked, words, variables, address):
    assert asked(*words, variables=variables) == address


def test_no_profile(asked, ottla):
    profiles.path().write_text(profiles.path().read_text() + "nosuch = 1\n")
    ottla("profile", "use", "one")
    assert "unknown client setting nosuch" in ottla("topics", "list", "-b", BEFORE, "--profile", "two", code=1).err
    assert asked("topics", "list", "-b", BEFORE, "--profile", "") == BEFORE
    assert "no profile nosuch" in ottla("topics", "list", "--profile", "nosuch", code=1).err
    assert "no profile nosuch" in ottla("--profile", "nosuch", "topics", "list", code=1).err


def test_an_address_that_was_not_typed_has_its_origin(ottla, asked, monkeypatch):
    def origin(*words):
        return ottla(*words, "topics", "list", code=1).err.partition("; the address is from ")[2].partition(".")[0]

    assert origin() == "profile one"
    assert origin("--profile", "two") == "profile two"
    assert origin("-b", PROFILE) == ""
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", VARIABLE)
    assert origin() == "OTTLA_BOOTSTRAP_SERVER"


@pytest.mark.parametrize(
    ("words", "clue"),
    [
        (("-b", BEFORE, "dump-log", "x.log"), "`ottla dump-log` has no option --bootstrap-server"),
        (("-b", BEFORE, "zk", "ls"), "`ottla zk ls` has no option --bootstrap-server"),
        (("--profile", "one", "broker"), "`ottla broker` has no option --profile"),
        (("--profile", "one", "profile", "list"), "`ottla profile list` has no option --profile"),
        (("zk", "-b", BEFORE, "ls"), "No such option: -b"),
    ],
    ids=str,
)
def test_an_option_that_the_command_does_not_have_is_refused(ottla, words, clue):
    assert clue in ottla(*words, code=1).err


def test_a_variable_is_no_error_for_commands_that_do_not_connect(ottla, monkeypatch):
    monkeypatch.setenv("OTTLA_PROFILE", "nosuch")
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", "nosuch:1")
    ottla("profile", "list")


def test_options_before_a_command_that_writes_a_profile(ottla):
    ottla("-b", BEFORE, "profile", "create", "one")
    assert ottla("profile", "show", "--json").json["bootstrap_servers"] == BEFORE


def test_a_chosen_profile_is_forgotten_afterwards(asked, ottla):
    assert asked("topics", "list", "--profile", "two") == "127.0.0.1:6"
    assert asked("topics", "list") == PROFILE
    (server,) = (one for one in load_command("consume").params if one.name == "bootstrap_server")
    assert server.default == "127.0.0.1:9092"
