"""`ottla users`: through a broker, and in a registry before the first broker runs."""

import asyncio
import stat

import pytest

from ottla.cluster.ports import free_ports
from security.password_hash import ScryptHash
from support.broker import broker_process
from support.sasl import listener_settings, sasl_listeners, scram_login
from support.wire import wire_client
from support.zookeeper import new_chroot, shared_zookeeper

BOTH = [
    {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 4096},
    {"user": "alice", "mechanism": "SCRAM-SHA-512", "iterations": 4096},
]


def test_through_a_broker(on):
    assert on("users", "list", "--json").json == []
    added = on("users", "add", "alice", stdin=b"pencil\n")
    assert added.out == "alice can log in with SCRAM-SHA-256 and SCRAM-SHA-512\n"
    assert sorted(on("users", "list", "--json").json, key=str) == sorted(BOTH, key=str)
    on("users", "add", "alice", "-m", "SCRAM-SHA-256", "--iterations", 8192, stdin=b"pencil\n")
    assert "8192" in on("users", "list").out
    on("users", "remove", "alice", "-m", "SCRAM-SHA-256")
    assert [one["mechanism"] for one in on("users", "list", "--json").json] == ["SCRAM-SHA-512"]
    assert on("users", "remove", "alice").out == "alice removed\n"
    assert "alice" in on("users", "remove", "alice", code=1).err


def test_a_password_is_taken_from_a_file_and_never_shown(on, tmp_path):
    file = tmp_path / "password.txt"
    file.write_text("planted-secret\nsecond line\n")
    shown = on("users", "add", "bob", "--password-file", file)
    assert "planted" not in shown.out + shown.err
    on("users", "remove", "bob")


@pytest.mark.parametrize(
    ("words", "stdin", "said"),
    [
        (("add", "x"), b"", "the password is empty"),
        (("add", "x"), b"penc\xffil\n", "the password must be a text in UTF-8"),
        (("add", "x\udcff"), b"pencil\n", "the name of the user must be a text in UTF-8"),
        (("add", "x", "-m", "PLAIN"), b"pencil\n", "must be one of SCRAM-SHA-256, SCRAM-SHA-512"),
        (("add", "x", "--zookeeper", "a:1", "--log-dir", "/x"), b"pencil\n", "only one of"),
    ],
)
def test_what_is_refused(ottla, words, stdin, said):
    assert said in ottla("users", *words, stdin=stdin, code=1).err


def test_a_line_for_the_file_of_users(ottla, tmp_path):
    (tmp_path / "password.txt").write_text("planted-secret\nsecond line\n")
    line = ottla("users", "hash", "alice", "--password-file", str(tmp_path / "password.txt")).out
    name, _, text = line.rstrip("\n").partition(":")
    assert name == "alice"
    assert ScryptHash.parse(text).verifies("planted-secret")
    for wrong in ("a:b", "#a", " a", "a\nb"):
        assert "a name must not be empty" in ottla("users", "hash", wrong, stdin=b"pencil\n", code=1).err


async def logs_in(port):
    async with wire_client(f"127.0.0.1:{port}") as client:
        return (await scram_login(client, "first", "pencil", "SCRAM-SHA-512")).error_code == 0


@pytest.mark.parametrize("registry", ["zookeeper", "embedded"])
def test_the_first_user_exists_before_the_first_broker(tmp_path, ottla, registry):
    """Then a broker starts, and the user can log in."""
    connect = f"{shared_zookeeper().connect}{new_chroot()}"
    data = tmp_path / "data"
    where = ("--zookeeper", connect) if registry == "zookeeper" else ("--log-dir", str(data))
    ottla("users", "add", "first", *where, stdin=b"pencil\n")
    if registry == "embedded":
        assert stat.S_IMODE((data / "registry.sqlite").stat().st_mode) == 0o600
    assert [one["user"] for one in ottla("users", "list", "--json", *where).json] == ["first", "first"]
    ottla("users", "add", "second", *where, stdin=b"pencil\n")
    ottla("users", "remove", "second", *where)
    assert "has no SCRAM credential" in ottla("users", "remove", "second", *where, code=1).err
    port = free_ports(1)[0]
    values = sasl_listeners("SASL") | listener_settings("SASL", "SCRAM-SHA-512")
    values["listeners"] = f"PLAINTEXT://127.0.0.1:{free_ports(1)[0]},SASL://127.0.0.1:{port}"
    if registry == "zookeeper":
        values["zookeeper.connect"] = connect
    with broker_process(data, **values):
        assert asyncio.run(logs_in(port))
