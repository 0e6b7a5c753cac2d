import io
import json
import sys

import pytest

from ottla.cli import main
from support.broker import broker_process
from support.json_fields import command_of, printed_fields, undocumented


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """A broker in another process. It keeps all records: tests write old ones, and retention may run at any time."""
    settings = {"group_initial_rebalance_delay_ms": "0", "log_retention_hours": "-1"}
    with broker_process(tmp_path_factory.mktemp("broker") / "data", **settings) as process:
        yield process


class Result:
    """The exit code and the output of a command."""

    def __init__(self, code, out, err):
        self.code = code
        self.raw = out
        self.out = out.decode(errors="replace")
        self.err = err.decode()

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def lines(self):
        return [json.loads(line) for line in self.out.splitlines()]


@pytest.fixture(autouse=True)
def _no_profiles_of_the_user(monkeypatch, tmp_path):
    """Commands see no profile of the user who runs the tests."""
    monkeypatch.setenv("OTTLA_CONFIG", str(tmp_path / "no-profiles.toml"))
    monkeypatch.delenv("OTTLA_PROFILE", raising=False)


@pytest.fixture
def ottla(monkeypatch, capsysbinary):
    """Run a command line in this process, and check what all commands promise."""

    def run(*words, stdin=b"", code=0):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsysbinary.readouterr()
        ended = main([str(word) for word in words])
        result = Result(ended, *capsysbinary.readouterr())
        assert result.code == code, result.out + result.err
        if "--json" in words and code == 0 and (command := command_of(words)) is not None:
            assert undocumented(command, printed_fields(result.out)) == [], "docs/cli.md, JSON"
        if code:
            # One clear line, and no traceback.
            assert result.err.startswith("ottla: ")
            assert result.err.count("\n") == 1
        return result

    return run


@pytest.fixture
def nowhere(monkeypatch):
    """An address without a ZooKeeper. Commands wait for it for 0.2 s only."""
    monkeypatch.setattr("ottla.command_line.registry_session._CONNECTION_TIMEOUT_MS", 200)
    return "127.0.0.1:1"


@pytest.fixture
def on(ottla, broker, monkeypatch):
    """The same, with the address of `broker`."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", broker.bootstrap)
    return ottla
