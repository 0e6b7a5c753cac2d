"""The example of mails: killed and started again against a real broker and a real SMTP server; its parts alone."""

import asyncio
import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections import Counter

import pytest
from aiosmtpd.smtp import SMTP

from client.admin.admin import Admin
from client.producer.producer import Producer
from client.topic_partition import TopicPartition
from examples.mail_alerts.__main__ import arguments
from examples.mail_alerts.alert import Alert
from examples.mail_alerts.alert_queue import AlertQueue
from examples.mail_alerts.alert_store import AlertStore
from support.broker import ROOT, broker_process
from support.deadlines import DEADLINE_S
from support.polling import until

TOPICS = ("disks", "networks")


class MailServer:
    """A real SMTP server that keeps the names of the mails it has taken."""

    def __init__(self):
        self.taken = Counter()
        self.port = 0
        self.is_open = asyncio.Event()
        self.is_open.set()
        self.sessions = set()

    async def handle_RCPT(self, server, session, envelope, address, rcpt_options):  # noqa: N802 - aiosmtpd's name
        if address.startswith("nobody"):
            return "550 nobody is not here"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):  # noqa: N802
        await self.is_open.wait()
        name = next(line for line in envelope.content.split(b"\r\n") if line.startswith(b"Message-ID:"))
        self.taken[name.split(b"<")[1].split(b"@")[0].decode()] += 1
        return "250 OK"


class MailSession(SMTP):
    """One connection, which the server knows as long as it is open."""

    def connection_made(self, transport):
        super().connection_made(transport)
        self.event_handler.sessions.add(self)

    def connection_lost(self, error):
        super().connection_lost(error)
        self.event_handler.sessions.discard(self)


@contextlib.asynccontextmanager
async def mail_server(mails=None):
    mails, loop = mails or MailServer(), asyncio.get_running_loop()
    listening = await loop.create_server(lambda: MailSession(mails, loop=loop), "127.0.0.1", mails.port)
    mails.port = listening.sockets[0].getsockname()[1]
    try:
        yield mails
    finally:
        listening.close()
        for session in list(mails.sessions):
            session.transport.abort()
        await until(lambda: not mails.sessions, "the connections are closed")


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    quick = {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}
    with broker_process(tmp_path_factory.mktemp("broker") / "data", **quick) as process:
        yield process.bootstrap


async def alert(servers, numbers, to="ops@example.org", prefix=""):
    async with Producer(bootstrap_servers=servers, linger_ms=5) as producer:
        for number in numbers:
            value = json.dumps({"to": to, "subject": f"alert {number}", "text": "…"}).encode()
            producer.send_nowait(prefix + TOPICS[number % 2], value, key=b"%d" % (number % 7))
        await producer.flush()


class Program:
    """The example as a process."""

    def __init__(self, servers, tmp_path, mails, prefix, **options):
        named = {
            "bootstrap-server": servers,
            "group": prefix,
            "instance": "one",
            "smtp": f"127.0.0.1:{mails.port}",
            "database": tmp_path / "alerts.sqlite",
            "rate": 2_000,
        } | options
        self._command = [sys.executable, "-m", "examples.mail_alerts", *(prefix + topic for topic in TOPICS)]
        for name, value in named.items():
            self._command += [f"--{name}", str(value)]
        self._out = tmp_path / "out"
        self.process = None

    def __enter__(self):
        with self._out.open("a") as out:
            self.process = subprocess.Popen(
                self._command, cwd=ROOT, stdout=out, stderr=out, env=os.environ | {"PYTHONUNBUFFERED": "1"}
            )
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE_S)


def rows(tmp_path):
    with contextlib.closing(sqlite3.connect(tmp_path / "alerts.sqlite")) as database:
        if not database.execute("SELECT * FROM sqlite_master WHERE name = 'alerts'").fetchall():
            return {}
        found = database.execute('SELECT topic, "partition", "offset", state FROM alerts').fetchall()
    return {f"{topic}-{partition}-{offset}": state for topic, partition, offset, state in found}


async def committed(servers, group):
    async with Admin(bootstrap_servers=servers) as admin:
        return sum(found.offset for found in (await admin.list_group_offsets(group)).values())


async def is_committed(servers, group, count):
    async with asyncio.timeout(DEADLINE_S):
        while await committed(servers, group) != count:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("seed", range(2))
async def test_killed_and_started_again(servers, tmp_path, seed):
    """Each alert has a row and was mailed at least once, wherever the kills fall."""
    chosen, prefix, count = random.Random(seed), f"kills{seed}-", 400
    await alert(servers, range(count), prefix=prefix)
    async with mail_server() as mails:
        program = Program(servers, tmp_path, mails, prefix, queue=50)
        for kill_at in sorted(chosen.sample(range(1, count), 3)):
            with program:
                await until(lambda at=kill_at: len(mails.taken) >= at, f"{kill_at} mails")
                program.process.send_signal(signal.SIGKILL)
        with program:
            await until(lambda: len(mails.taken) == count, "all mails")
            await is_committed(servers, prefix, count)
            program.process.send_signal(signal.SIGTERM)
            assert program.process.wait(DEADLINE_S) == 0, program._out.read_text()
    assert set(rows(tmp_path)) == set(mails.taken)
    assert set(rows(tmp_path).values()) == {"sent"}
    # What is mailed twice was under way at a kill: at most one for each worker.
    assert sum(mails.taken.values()) <= count + 3 * 20


async def test_a_full_queue_loses_nothing(servers, tmp_path):
    prefix, count = "full-", 300
    await alert(servers, range(count), prefix=prefix)
    async with mail_server() as mails:
        mails.is_open.clear()
        with Program(servers, tmp_path, mails, prefix, queue=10, workers=3) as program:
            await until(lambda: len(rows(tmp_path)) == 3, "all are busy")
            await alert(servers, range(count, count + 50), prefix=prefix)
            mails.is_open.set()
            await until(lambda: len(mails.taken) == count + 50, "all mails")
            await is_committed(servers, prefix, count + 50)
            program.process.send_signal(signal.SIGTERM)
            assert program.process.wait(DEADLINE_S) == 0, program._out.read_text()
    assert set(mails.taken.values()) == {1}
    assert len(rows(tmp_path)) == count + 50


async def test_a_mail_that_cannot_be_sent_is_kept_and_does_not_stop_others(servers, tmp_path):
    prefix = "refused-"
    await alert(servers, [0], prefix=prefix)
    await alert(servers, [2], to="nobody@example.org", prefix=prefix)
    async with Producer(bootstrap_servers=servers) as producer:
        await producer.send(prefix + TOPICS[0], b"no JSON")
        await producer.send(prefix + TOPICS[1], None)
    await alert(servers, [4], prefix=prefix)
    async with mail_server() as mails:
        with Program(servers, tmp_path, mails, prefix):
            await is_committed(servers, prefix, 5)
    assert Counter(rows(tmp_path).values()) == {"sent": 2, "refused": 3}
    assert sum(mails.taken.values()) == 2


async def test_a_mail_server_that_starts_later(servers, tmp_path):
    prefix = "later-"
    await alert(servers, range(10), prefix=prefix)
    async with mail_server() as mails:
        pass  # its port is known, and nobody listens
    with Program(servers, tmp_path, mails, prefix) as program:
        await until(lambda: program._out.exists() and "not sent, again" in program._out.read_text(), "it has tried")
        async with mail_server(mails):
            await until(lambda: len(mails.taken) == 10, "all mails")


@pytest.mark.parametrize(
    ("words", "environment", "servers"),
    [
        ([], None, "127.0.0.1:9092"),
        ([], "one:1,two:2", "one:1,two:2"),
        (["-b", "three:3"], "one:1", "three:3"),
        (["--bootstrap-server", "three:3"], None, "three:3"),
    ],
)
def test_the_broker_is_named_as_for_the_command(monkeypatch, words, environment, servers):
    monkeypatch.setattr(sys, "argv", ["mail_alerts", "disks", *words])
    monkeypatch.delenv("OTTLA_BOOTSTRAP_SERVER", raising=False)
    if environment is not None:
        monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", environment)
    assert arguments().bootstrap_server == servers


# -- parts -------------------------------------------------------------------------------------------------------------


def made(topic, offset=0, partition=0):
    return Alert(topic, partition, offset, 0, b"")


async def test_topics_take_turns_and_a_full_queue_is_waited_for():
    queue = AlertQueue(5)
    for offset in range(3):
        await queue.put(made("a", offset), None)
    await queue.put(made("b"), None)
    await queue.put(made("c"), None)
    waiting = asyncio.create_task(queue.put(made("a", 3), None))
    await asyncio.sleep(0)
    assert queue.size == 5
    assert not waiting.done()
    found = [(await queue.take()).alert[:3] for _ in range(4)]
    assert found == [("a", 0, 0), ("b", 0, 0), ("c", 0, 0), ("a", 0, 1)]
    await waiting
    assert [(await queue.take()).alert.offset for _ in range(2)] == [2, 3]


async def test_revoked_partitions_are_removed_from_the_queue():
    queue = AlertQueue(3)
    await queue.put(made("a", 1, 0), None)
    await queue.put(made("a", 2, 1), None)
    await queue.put(made("b", 3, 0), None)
    await queue.on_partitions_revoked([TopicPartition("a", 1), TopicPartition("b", 0)])
    assert queue.size == 1
    assert (await queue.take()).alert.offset == 1


async def test_rows_are_kept_for_three_days(tmp_path):
    now = 1_000_000
    store = AlertStore(tmp_path / "alerts.sqlite", lambda: now)
    for offset in range(3):
        assert await store.begin(made("a", offset))
    await store.end(made("a", 0), "sent")
    now += 2
    await store.end(made("a", 1), "sent")
    assert not await store.begin(made("a", 1))
    now += 3 * 24 * 3600 * 1000 - 1
    assert await store.purge(3 * 24 * 3600 * 1000) == 1
    assert rows(tmp_path) == {"a-0-1": "sent", "a-0-2": "waiting"}  # what is not sent yet is no old alert
    await store.close()
