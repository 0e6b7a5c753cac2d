"""The front door: help everywhere, version, one line for errors, a cheap way into the broker."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.main import get_command

import ottla as package
from client.wire.versions import SOFTWARE_VERSION
from ottla.app import COMMANDS as SUMMARIES
from ottla.app import app, load_command, run_app
from ottla.cluster.ports import free_ports
from ottla.command_line.broker_arguments import parse_arguments, parse_settings, run_from_arguments
from ottla.command_line.failure import CommandError, explain, suggest
from ottla.commands.groups.groups import groups
from ottla.testing.faults.options import command_name
from ottla.testing.faults.verbs import VERBS
from support.broker import broker_process
from support.deadlines import DEADLINE_S

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = [
    ("broker",),
    ("console",),
    ("topics",),
    ("topics", "list"),
    ("topics", "create"),
    ("topics", "describe"),
    ("topics", "alter"),
    ("topics", "trim"),
    ("topics", "offsets"),
    ("topics", "delete"),
    ("groups",),
    *(
        ("groups", name)
        for name in (
            "list",
            "describe",
            "watch",
            "delete",
            "reset-offsets",
            "delete-offsets",
            "import-zookeeper",
            "export-zookeeper",
        )
    ),
    ("transactions",),
    *(("transactions", name) for name in ("list", "describe", "describe-producers", "fence", "find-hanging", "abort")),
    ("reassign",),
    *(("reassign", name) for name in ("plan", "start", "status", "list", "cancel")),
    ("elect-leaders",),
    ("produce",),
    ("consume",),
    ("quotas",),
    ("quotas", "list"),
    ("quotas", "set"),
    ("quotas", "remove"),
    ("configs",),
    ("configs", "describe"),
    ("configs", "alter"),
    ("users",),
    *(("users", name) for name in ("list", "add", "hash", "remove")),
    ("tokens",),
    *(("tokens", name) for name in ("list", "create", "renew", "expire")),
    ("acls",),
    *(("acls", name) for name in ("list", "add", "remove")),
    ("dump-log",),
    ("verify-log",),
    ("adopt-logs",),
    ("certificates",),
    ("certificates", "init"),
    ("perf",),
    ("perf", "produce"),
    ("perf", "consume"),
    ("zk",),
    *(("zk", name) for name in ("ls", "get", "stat", "tree", "watch", "create", "set", "delete", "secure", "unsecure")),
    ("registry",),
    ("zookeeper",),
    ("cluster",),
    ("cluster", "describe"),
    ("cluster", "id"),
    ("testing",),
    ("testing", "run"),
    ("brokers",),
    ("brokers", "list"),
    ("brokers", "describe"),
    ("log-dirs",),
    ("api-versions",),
    ("faults",),
    *(("faults", name) for name in ("list", "heal", *map(command_name, VERBS))),
    ("help",),
    ("completion",),
    ("profile",),
    *(("profile", name) for name in ("create", "use", "list", "show", "delete")),
]
GROUPS = [
    (name,)
    for name in (
        *(
            "acls",
            "quotas",
            "tokens",
            "users",
            "topics",
            "configs",
            "groups",
            "transactions",
            "reassign",
            "perf",
            "zk",
            "brokers",
            "profile",
            "faults",
        ),
        "certificates",
        "testing",
    )
]


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


@pytest.mark.parametrize("words", [(), *COMMANDS], ids=" ".join)
def test_help_everywhere_with_examples(ottla, words):
    text = plain(ottla(*words, "--help").out)
    assert "Usage: ottla" in text
    if words and words not in GROUPS:
        assert "Example" in text
        assert f"ottla {' '.join(words)}" in text


def letters(text):
    """Return the text without what a table of Rich adds: spaces, line breaks and borders."""
    return re.sub(r"[\s│]+", "", plain(text))


def test_help_keeps_square_brackets(ottla, monkeypatch):
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 500)  # a description stays on one line, beside its option

    def walk(command, words=()):
        texts = [command.help, command.epilog, *(getattr(one, "help", "") for one in command.params)]
        if bracketed := [part for text in texts for part in re.findall(r"\S*\[.*?\]", text or "")]:
            shown = letters(ottla(*words, "--help").out)
            assert [part for part in bracketed if letters(part) not in shown] == []
        found = len(bracketed)
        for name, subcommand in getattr(command, "commands", {}).items():
            found += walk(subcommand, (*words, name))
        return found

    found = walk(get_command(app)) + sum(walk(load_command(name), (name,)) for name in SUMMARIES)
    assert found >= 4
    assert "pip install 'ottla[zookeeper]'" in plain(ottla("cluster", "--help").out)


def test_a_subcommand_is_registered_once(ottla):
    """In a process that runs many command lines, each would otherwise take longer than the one before."""
    ottla("groups", "--help")
    registered = len(groups.registered_commands)
    ottla("groups", "--help")
    assert len(groups.registered_commands) == registered


def test_every_paragraph_of_help_fills_the_width(ottla, monkeypatch):
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 500)
    assert "Offsets that it shows are upper bounds of the number of records" in ottla("topics", "trim", "--help").out
    assert "--header, --partition and --timestamp then apply to records" in ottla("produce", "--help").out


def test_no_command_is_forgotten_here():
    def walk(name, command):
        yield (name,)
        yield from ((name, other) for other in getattr(command, "commands", ()))

    found = [words for name in SUMMARIES for words in walk(name, load_command(name))]
    assert sorted(found) == sorted(COMMANDS)


@pytest.mark.parametrize("name", SUMMARIES)
def test_summaries_are_the_first_paragraphs_of_the_help(name):
    assert " ".join(load_command(name).help.split("\n\n")[0].split()) == SUMMARIES[name]


def test_a_command_does_not_import_the_others(monkeypatch):
    for measures in ("COVERAGE_PROCESS_CONFIG", "OTTLA_PERTURB"):
        monkeypatch.delenv(measures, raising=False)
    script = (
        "import sys; from ottla.cli import main; main(sys.argv[1:]);"
        "print([name for name in ('ottla.commands.topics', 'client.admin.admin', 'asyncio', 'storage', 'kazoo',"
        " 'broker')"
        " if name in sys.modules])"
    )
    for words, loaded in (((), []), (("topics",), ["ottla.commands.topics", "client.admin.admin", "asyncio"])):
        command = [sys.executable, "-c", script, *words, "--help"]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
        assert done.stdout.splitlines()[-1] == str(loaded)


@pytest.mark.parametrize(
    ("typed", "found"), [("top", "topics"), ("topics cre", "create"), ("topics create --parti", "--partitions")]
)
def test_the_shell_completes_commands_and_options(typed, found):
    last = str(len(typed.split()))
    completion = {
        "_OTTLA_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(["ottla", *typed.split()]),
        "COMP_CWORD": last,
    }
    command = [sys.executable, "-m", "ottla"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=os.environ | completion)
    assert done.stdout.split() == [found]


def test_version_is_one(ottla):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert ottla("--version").out == f"ottla {version}\n"
    assert package.__version__ == SOFTWARE_VERSION == version


@pytest.mark.parametrize(
    ("words", "clue"),
    [
        (("nosuch",), "No such command 'nosuch'"),
        (("topics", "list", "--nosuch"), "--nosuch"),
        (("broker", "--nosuch"), "no such option: --nosuch"),
        (("broker", "a", "b"), "only one properties file is allowed, not also 'b'"),
        (("broker", "--set"), "--set needs name=value"),
        (("broker", "--set", "x"), "'x' is not name=value"),
        (("broker", "/no/such.properties"), "no properties file /no/such.properties"),
        (("broker", "--set", "no.such.setting=1"), "no.such.setting"),
        (("broker", "--prot", "1"), "no such option: --prot (did you mean --port?)"),
        (("broker", "--port"), "--port needs a value"),
        (("broker", "--port", "65536"), "--port '65536': must be a number from 0 to 65535"),
        (("broker", "--port=x"), "--port 'x': must be a number"),
        (("broker", "--data-dir", "a,b"), "--data-dir 'a,b': must be one directory"),
        (("topics", "list", "-b", "host:port"), "bootstrap_servers='host:port'"),
    ],
)
def test_errors_are_one_line(ottla, words, clue):
    assert clue in ottla(*words, code=1).err


def test_unexpected_errors_are_one_line_too(ottla, monkeypatch):
    def fail(*_):
        raise ZeroDivisionError("surprise")

    monkeypatch.setattr("ottla.app.run_app", fail)
    assert "unexpected ZeroDivisionError: surprise" in ottla("topics", "list", code=1).err
    monkeypatch.setenv("OTTLA_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        ottla("topics", "list")


def test_broker_arguments():
    assert parse_arguments([]) == (None, [], None)
    assert parse_arguments(["f", "--set", "a=1", "--set=b=2", "-s", "c=3"]) == (Path("f"), ["a=1", "b=2", "c=3"], None)
    short = ["--port", "1", "--data-dir=d", "-s", "a=1"]
    assert parse_arguments(short) == (None, ["a=1", "listeners=PLAINTEXT://127.0.0.1:1", "log.dirs=d"], None)
    assert parse_arguments(["--log-level", "debug"]) == (None, ["ottla.log.level=debug"], None)
    assert parse_arguments(["--processes", "2", "-s", "a=1"]) == (None, ["a=1"], 2)
    assert parse_arguments(["--processes=64"]).processes == 64
    assert parse_settings(["a=1=2", " b = x "]) == {"a": "1=2", "b": "x"}
    with pytest.raises(CommandError, match="'=1' is not name=value"):
        parse_settings(["=1"])


def run_without_typer(words):
    return run_from_arguments(words[1:])


@pytest.mark.parametrize("run", [run_without_typer, run_app])
@pytest.mark.parametrize("number", ["0", "65", "two", "²", "-1"])
def test_a_wrong_number_of_processes_is_refused(run, number):
    with pytest.raises(CommandError, match=f"--processes '{number}': must be a number from 1 to 64"):
        run(["broker", f"--processes={number}"])


@pytest.mark.parametrize("run", [run_without_typer, run_app])
def test_a_short_form_is_for_a_setting_that_nothing_else_sets(tmp_path, run):
    file = tmp_path / "server.properties"
    file.write_text("listeners=PLAINTEXT://0.0.0.0:9092\nlog.dir=/kafka\n")
    for words, message in (
        (("--port", "1", "--set", "listeners=X"), "--port 1 and --set listeners=X set the same: use one of them"),
        (("--log-level", "x", "-s", "ottla.log.level=y"), "--log-level x and --set ottla.log.level=y set the same"),
        (("--data-dir", "d", "-s", "log.dir=e"), "--data-dir d and --set log.dir=e set the same: use one of them"),
        ((file, "--port", "1"), f"--port 1: {file} has listeners=PLAINTEXT://0.0.0.0:9092; use --set listeners=… to"),
        ((file, "--data-dir", "d"), f"--data-dir d: {file} has log.dir=/kafka; use --set log.dir=… to"),
    ):
        with pytest.raises(CommandError, match=re.escape(message)):
            run(["broker", *map(str, words)])


def test_a_short_form_and_a_variable_are_refused(ottla, monkeypatch):
    monkeypatch.setenv("KAFKA_LISTENERS", "PLAINTEXT://:9092")
    said = ottla("broker", "--port", "1", code=1).err
    assert said == "ottla: --port 1: the environment sets KAFKA_LISTENERS; use --set listeners=… to override it\n"


def test_the_log_level_overrides_the_file(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("ottla.log.level=WARN\n")
    assert parse_arguments([str(file), "--log-level=DEBUG"]) == (file, ["ottla.log.level=DEBUG"], None)


def test_with_a_file_a_port_is_one_of_all_addresses(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=3\n")
    assert parse_arguments([str(file), "--port", "1"]) == (file, ["listeners=PLAINTEXT://:1"], None)


def test_broker_start_imports_neither_typer_nor_rich(monkeypatch):
    monkeypatch.delenv("OTTLA_PERTURB", raising=False)  # it imports asyncio
    script = (
        "import sys; import ottla.cli, ottla.command_line.broker_arguments;"
        "print([name for name in ('typer', 'rich', 'aiohttp', 'asyncio', 'client.producer') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "[]\n"


def test_broker_from_the_command_line(tmp_path):
    import signal

    (tmp_path / "server.properties").write_text(
        f"listeners=PLAINTEXT://127.0.0.1:1\nlog.dirs={tmp_path / 'data'}\nottla.console.listener=\n"
    )
    command = [sys.executable, "-m", "ottla", "broker", str(tmp_path / "server.properties")]
    command += ["--set", "listeners=PLAINTEXT://127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT) as process:
        text = ""
        while "Try, in another terminal" not in text:
            line = process.stdout.readline()
            assert line, text
            text += line
        port = re.search(r"PLAINTEXT://127\.0\.0\.1:(\d+)", text)[1]
        listed = [sys.executable, "-m", "ottla", "topics", "list", "--json", "-b", f"127.0.0.1:{port}"]
        done = subprocess.run(listed, capture_output=True, text=True, cwd=ROOT)
        assert (done.stdout, done.stderr, done.returncode) == ("[]\n", "", 0)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("orders", []),  # neither "readers" nor "borders-of-the-world"
        ("reader", ["readers"]),
        ("Readers", ["readers"]),
        ("borders", ["borders-of-the-world"]),
        ("payments.eu", ["payments"]),
        ("t2", []),
        ("payers", []),
    ],
)
def test_only_near_names_are_suggested(name, near):
    known = ["readers", "borders-of-the-world", "payments", "t1"]
    assert suggest(name, known) == (f" (did you mean {' or '.join(near)}?)" if near else "")


def test_a_console_is_no_bootstrap_server(ottla, tmp_path):
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with broker_process(tmp_path / "data", ottla_console_listener=address):
        said = ottla("topics", "list", "-b", address, code=1).err
    assert f"no broker answers at {address} (an HTTP server answers there, perhaps a console;" in said


def test_os_errors_name_the_file():
    assert explain(FileNotFoundError(2, "No such file", "a/b")) == "a/b: No such file"
    assert explain(OSError(98, "[Errno 98] in use\nreally")) == "in use really"
