"""Commands end on Ctrl-C, SIGTERM and SIGHUP, whatever they wait for, and finish what they have begun."""

import contextlib
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
import tty

import pytest

from support.deadlines import DEADLINE_S
from support.names import name_for
from support.polling import until_blocking
from support.terminal import CTRL_C, Terminal

# Ctrl-C reaches the shell, too, as it reaches a script; an interactive shell has its own process group.
THEN_READ = 'trap : INT; "$@"; echo "code $?"; echo "next: $(head -n 1)"'


def command(*words):
    return [sys.executable, "-m", "ottla", *words]


@contextlib.contextmanager
def started(*words, **pipes):
    """A process, which is killed if a test fails before it has ended."""
    with subprocess.Popen(words, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def topic(on, request):
    name = name_for(request, "s")
    on("topics", "create", name, "-p", 1)
    return name


@pytest.fixture
def written(on, topic):
    """Wait until the topic has these lines."""

    def wait(*lines):
        until_blocking(lambda: on("consume", topic).out.split("\n")[:-1] == list(lines), "the lines are written")

    return wait


def test_ctrl_c_ends_produce_at_once_and_leaves_the_next_line_to_the_shell(topic, written):
    with Terminal(["sh", "-c", THEN_READ, "sh", *command("produce", topic)]) as terminal:
        terminal.type("one\ntwo\n")
        written("one", "two")
        terminal.type("unfinished" + CTRL_C)
        terminal.wait_for("code 130")
        assert f"2 records written to {topic}" in terminal.shown
        terminal.type("hello\n")
        terminal.wait_for("next: hello")
    written("one", "two")


def test_no_progress_is_shown_where_the_user_types(topic, written):
    with Terminal(command("produce", topic)) as terminal:
        for number in range(12):  # takes longer than the second in which no progress is shown
            terminal.type(f"{number}\n")
            written(*map(str, range(number + 1)))
        terminal.type("\x04")
        terminal.wait_for(f"12 records written to {topic}")
        assert "\x1b" not in terminal.shown


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_produce_writes_what_it_has_read(topic, written, number, code):
    """The lines linger in the producer when the signal comes."""
    words = command("produce", topic, "--linger-ms", "100000")
    with pipe() as (out, into), started(*words, stdin=out, stderr=subprocess.PIPE) as process:
        os.write(into, b"one\ntwo\nunfinished")
        until_blocking(lambda: unread(out) == 0, "the lines are read")
        is_blocking = os.get_blocking(out)
        process.send_signal(number)
        assert process.communicate(timeout=DEADLINE_S)[1] == f"2 records written to {topic}\n".encode()
    assert process.returncode == code
    assert is_blocking  # other processes that have the same pipe or terminal depend on it
    written("one", "two")


@contextlib.contextmanager
def pipe():
    """A pipe that is closed at the end: the descriptor to read from, and the one to write to."""
    out, into = os.pipe()
    yield out, into
    os.close(out)
    os.close(into)


def unread(pipe):
    """The number of bytes in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_stopped_member_commits_and_leaves_its_group(on, topic, number, code):
    on("produce", topic, stdin=b"1\n2\n3\n")
    words = command("consume", topic, "-g", topic, "--from-beginning")
    with started(*words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert [process.stdout.readline() for _ in range(3)] == [b"1\n", b"2\n", b"3\n"]
        process.send_signal(number)
        assert process.communicate(timeout=DEADLINE_S) == (b"", b"")
    assert process.returncode == code
    [described] = on("groups", "describe", topic, "--json").json
    assert (described["state"], [one["committed_offset"] for one in described["partitions"]]) == ("Empty", [3])


def test_a_closed_terminal_ends_produce(topic, written):
    with Terminal(command("produce", topic)) as terminal:
        terminal.type("typed\n")
        written("typed")
        terminal.type("unfinished")
        terminal.hang_up()
        assert terminal.process.wait(DEADLINE_S) == 129
    written("typed")


@pytest.mark.parametrize(("ignored", "code", "lines"), [(False, 129, ["one"]), (True, 0, ["one", "two"])])
def test_a_closed_terminal_counts_as_its_signal(topic, written, ignored, code, lines):
    """The terminal is not that of the session: the kernel sends no signal, as if it came late."""
    words = ["sh", "-c", 'trap "" HUP; exec "$@"' if ignored else 'exec "$@"', "sh", *command("produce", topic)]
    keyboard, screen = pty.openpty()
    tty.setraw(screen)  # else the terminal keeps a line without its end
    with started(*words, stdin=screen, stderr=subprocess.PIPE, start_new_session=True) as process:
        os.close(screen)
        os.write(keyboard, b"one\ntwo")
        written("one")
        os.close(keyboard)
        process.communicate(timeout=DEADLINE_S)
    assert process.returncode == code
    written(*lines)


def test_a_closed_terminal_ends_consume(on, topic):
    on("produce", topic, stdin=b"shown\n")
    with Terminal(command("consume", topic, "--follow", "--from-beginning")) as terminal:
        terminal.wait_for("shown")
        terminal.hang_up()
        assert terminal.process.wait(DEADLINE_S) == 129


def test_nohup_still_works(topic):
    """A signal that is ignored when the command starts stays ignored."""
    words = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *command("consume", topic, "--follow", "--from-beginning")]
    with started(*words, stdout=subprocess.PIPE) as process:
        subprocess.run(command("produce", topic, "-q"), input=b"one\n", check=True)
        assert process.stdout.readline() == b"one\n"
        process.send_signal(signal.SIGHUP)
        subprocess.run(command("produce", topic, "-q"), input=b"two\n", check=True)
        assert process.stdout.readline() == b"two\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE_S) == 143
