"""Listener containers in processes that are killed while they handle: nothing is lost, and little comes again."""

import contextlib
import random
import signal
from collections import Counter

import pytest

from client.admin.admin import Admin
from client.producer.producer import Producer
from support.broker import broker_process
from support.container_member import run
from support.deadlines import DEADLINE_S
from support.fork_server import ForkedProcess
from support.polling import until
from support.quick_groups import BROKER_SETTINGS

COUNT, PARTITIONS = 1_200, 4


class Member:
    def __init__(self, tmp_path, name, *arguments):
        self._out = tmp_path / name
        self.process = ForkedProcess(run, *arguments, out=self._out)

    def _lines(self):
        return [line.split() for line in self._out.read_text().rpartition("\n")[0].splitlines()]

    def handled(self):
        """(partition, offset, key), in the order of handling."""
        return [(int(line[0]), int(line[1]), line[2]) for line in self._lines() if line[0].isdigit()]

    def tenures(self, partition):
        """[(offset, key), …] for each time that the member had a partition."""
        found = [[]]
        for first, *more in self._lines():
            if first == str(partition):
                found[-1].append((int(more[0]), more[1]))
            elif not first.isdigit() and str(partition) in more:
                found.append([])
        return found

    def losses(self):
        """How often the group has given the member up: on a busy machine its session may be too short."""
        return sum(line[0] == "lost" for line in self._lines())

    def end(self, number=signal.SIGKILL):
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(DEADLINE_S)


@pytest.mark.parametrize(("seed", "concurrency"), [(0, 1), (1, 4)])
async def test_killed_members_lose_no_record(tmp_path, seed, concurrency):
    chosen = random.Random(seed)
    with broker_process(tmp_path / "data", **BROKER_SETTINGS) as broker, contextlib.ExitStack() as ends:
        async with Admin(bootstrap_servers=broker.bootstrap) as admin:
            await admin.create_topic("t", PARTITIONS)
        async with Producer(bootstrap_servers=broker.bootstrap, linger_ms=1) as producer:
            for number in range(COUNT):
                producer.send_nowait("t", b"", key=b"%d" % chosen.randrange(20), partition=number % PARTITIONS)
            await producer.flush()

        members = []

        def start():
            member = Member(
                tmp_path, f"m{len(members)}", broker.bootstrap, "g", "t", chosen.randrange(1 << 30), concurrency
            )
            ends.callback(member.end)
            members.append(member)

        def handled():
            return [one for member in members for one in member.handled()]

        start()
        start()
        for done in (200, 500):
            await until(lambda at=done: len({one[:2] for one in handled()}) >= at, f"{done} are handled")
            members[-2].end()
            start()
        await until(lambda: len({one[:2] for one in handled()}) == COUNT, "all are handled")
        again = Counter(one[:2] for one in handled())
        if concurrency == 1:  # only what was handled and not yet committed; with more, also what is behind a slow one
            ungraceful = 2 + sum(member.losses() for member in members)
            assert sum(again.values()) - len(again) <= ungraceful * PARTITIONS
        for member in members:
            for partition in range(PARTITIONS):
                for tenure in member.tenures(partition):
                    for key in map(str, range(20)):
                        mine = [offset for offset, its in tenure if its == key]
                        assert mine == sorted(mine), (partition, key)
