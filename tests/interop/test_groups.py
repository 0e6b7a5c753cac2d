"""Groups of consumers, theirs and ours and mixed: whatever happens to members, every record is handled and all settles.

Members are processes that are killed, stopped, resumed and added while records are written. Afterwards every partition
has exactly one owner, by what the members say and by what the broker says; every record was handled at least once, and
those that were written while the membership was stable exactly once.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from support.broker import BrokerProcess
from support.counts import FULL
from support.deadlines import DEADLINE_S
from support.fork_server import ForkedProcess, run_module
from support.polling import until_blocking

SESSION_MS = 4_000
LIBRARIES = {
    "confluent-kafka": ("range", "roundrobin", "cooperative", "consumer"),  # the last is the newer protocol
    "aiokafka": ("range", "roundrobin", "sticky"),
    "kafka-python": ("range", "roundrobin", "sticky", "cooperative"),
    "ottla": ("range", "roundrobin", "sticky", "cooperative", "consumer"),
}
EVERY = [(library, assignor) for library, assignors in LIBRARIES.items() for assignor in assignors]
SOME = [
    ("confluent-kafka", "cooperative"),
    ("confluent-kafka", "consumer"),
    ("aiokafka", "range"),
    ("kafka-python", "sticky"),
    ("ottla", "cooperative"),
    ("ottla", "consumer"),
]
# Ours beside theirs in one group; whose member leads it, and divides, is chance.
MIXED = [(library, assignor) for library, assignor in EVERY if library != "ottla"]
SIZES = [(1, 1), (1, 50), (2, 3), (5, 20), (20, 50), (20, 7)]  # members, partitions
if os.environ.get("OTTLA_STORMS") == "all":
    STORMS = list(itertools.product(EVERY, SIZES))
elif FULL:
    STORMS = list(zip(EVERY, itertools.cycle(SIZES), strict=False))
else:
    STORMS = [(one, (3, 7)) for one in SOME]
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    """Sessions may be short, so that the dead are missed soon."""
    settings = {
        "group.initial.rebalance.delay.ms": "1000",
        "group.min.session.timeout.ms": "1000",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.session.timeout.ms": str(SESSION_MS),
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "300",
    }
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data", settings) as process:
        yield process
        assert "Traceback" not in process.log_text()
        assert process.stop() == 0


@pytest.fixture
def topic(broker):
    return f"groups-{next(_NUMBERS)}"


class Member:
    """One consumer process."""

    def __init__(self, broker, library, group, topic, assignor, out: Path) -> None:
        self.out = out
        arguments = (library, broker.bootstrap, group, topic, assignor, str(SESSION_MS))
        module, errors = "support.group_member", out.with_suffix(".err")
        self.process = ForkedProcess(run_module, module, *arguments, out=out, errors=errors)
        self.is_stopped = False

    def lines(self):
        return [line.split() for line in self.out.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def assigned(self):
        """The partitions that it has, as it last said; None before it has said anything."""
        said = [line for line in self.lines() if line[0] == "A"]
        return {int(number) for number in said[-1][1:]} if said else None

    def log_tail(self):
        """The end of what the library has logged."""
        return f"-- {self.out.stem}:\n" + "".join(self.out.with_suffix(".err").read_text().splitlines(True)[-60:])

    def handled(self):
        records = [line[1:] for line in self.lines() if line[0] == "R"]
        return [(int(partition), int(offset)) for partition, offset in records]

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)
        self.is_stopped = True

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)
        self.is_stopped = False

    @property
    def lives(self) -> bool:
        return self.process.poll() is None


class Storm:
    """A group, what happens to it, and the records that are written meanwhile."""

    def __init__(self, broker, directory, topic, partitions, library, assignor) -> None:
        self.broker = broker
        self.directory = directory
        self.topic = topic
        self.partitions = partitions
        self.library = library
        self.assignor = assignor
        self.group = f"group-of-{topic}"
        self.members: list[Member] = []
        self.written: Counter[int] = Counter()
        self.producer = Producer({"bootstrap.servers": broker.bootstrap})
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(topic, partitions)])[topic].result(DEADLINE_S)
        self.admin = admin

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for member in self.members:
            if member.lives:
                member.kill()

    def add(self, group=None, library=None) -> Member:
        out = self.directory / f"{len(self.members)}.out"
        member = Member(self.broker, library or self.library, group or self.group, self.topic, self.assignor, out)
        self.members.append(member)
        return member

    @property
    def living(self):
        return [member for member in self.members if member.lives]

    def write(self, count=20) -> None:
        for partition in range(self.partitions):
            for _ in range(count):
                self.producer.produce(self.topic, b"v", partition=partition)
                self.written[partition] += 1
        assert self.producer.flush(DEADLINE_S) == 0

    def handled(self) -> Counter[tuple[int, int]]:
        return Counter(record for member in self.members for record in member.handled())

    def all_written(self) -> set[tuple[int, int]]:
        return {(partition, offset) for partition, count in self.written.items() for offset in range(count)}

    def until(self, condition, what) -> None:
        def holds() -> bool:
            for member in self.members:
                if member.process.poll() not in (None, 0, -signal.SIGKILL):
                    raise AssertionError(f"a member has died:\n{member.out.with_suffix('.err').read_text()[-3000:]}")
            return bool(condition())

        try:
            until_blocking(holds, what)
        except AssertionError as error:
            said = [member.assigned() for member in self.living]
            logs = "\n".join(member.log_tail() for member in self.living)
            raise AssertionError(f"{error}; {said}, {self.described()}\n{logs}") from None

    def described(self):
        """(state, the partitions of each member), as the broker has it."""
        found = self.admin.describe_consumer_groups([self.group])[self.group].result(DEADLINE_S)
        owned = [{one.partition for one in member.assignment.topic_partitions} for member in found.members]
        return found.state.name, owned

    def is_settled(self) -> bool:
        """Every partition has one owner, says everybody."""
        everything = list(range(self.partitions))
        said = [member.assigned() for member in self.living]
        if any(one is None for one in said) or sorted(itertools.chain.from_iterable(said)) != everything:
            return False
        state, owned = self.described()
        return state == "STABLE" and sorted(map(sorted, owned)) == sorted(map(sorted, said))

    def generation(self) -> list[str]:
        """What the broker's log says of the group's generations so far."""
        return [line for line in self.broker.log_text().splitlines() if f"group {self.group} has" in line]


@pytest.mark.counted
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("client", "size"), STORMS, ids=lambda part: "-".join(map(str, part)))
def test_members_that_join_and_leave_at_random(broker, tmp_path, topic, client, size):
    (library, assignor), (members, partitions) = client, size
    rng = random.Random(f"{library} {assignor} {members} {partitions}")
    with Storm(broker, tmp_path, topic, partitions, library, assignor) as storm:
        for _ in range(members):
            storm.add()
        storm.write()
        storm.until(storm.is_settled, "the group settles")
        for _ in range(4 if FULL else 1):
            victims = [member for member in storm.living if not member.is_stopped]
            rng.shuffle(victims)
            if len(victims) > 1:
                victims.pop().kill()
            storm.write()
            if len(victims) > 1:
                victims.pop().stop()
            storm.write()
            storm.add()
            if FULL:
                time.sleep(rng.random() * 2 * SESSION_MS / 1000)  # the dead are missed, or not yet: each is a storm
            else:
                storm.until(lambda: len(storm.described()[1]) == 2, "who is dead or stopped is missed")
            storm.write()
            for member in storm.living:
                if member.is_stopped and rng.random() < 0.7:
                    member.resume()
        for member in storm.living:
            member.resume()
        storm.until(storm.is_settled, "the group settles after the storm")
        storm.until(lambda: storm.handled().keys() >= storm.all_written(), "every record is handled")
        while_stable(storm)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("library", "assignor"), MIXED if FULL else MIXED[2:7:4])
def test_members_of_different_clients_share_one_group(broker, tmp_path, topic, library, assignor):
    with Storm(broker, tmp_path, topic, 7, library, assignor) as storm:
        ours = storm.add(library="ottla")
        storm.until(storm.is_settled, "ours is alone")
        theirs = storm.add()
        storm.until(storm.is_settled, "theirs has come")
        storm.add(library="ottla")
        storm.add()
        storm.write()
        storm.until(storm.is_settled, "all have come")
        assert sorted(len(member.assigned()) for member in storm.living) == [1, 2, 2, 2]
        while_stable(storm)
        ours.kill()  # the first to come leads the group
        storm.until(storm.is_settled, "ours is missed")
        theirs.kill()
        storm.until(storm.is_settled, "theirs is missed")
        storm.write()
        storm.until(lambda: storm.handled().keys() >= storm.all_written(), "every record is handled")
        while_stable(storm)


def while_stable(storm) -> None:
    """Nothing is handled twice while the membership is stable; a machine that is too busy may break that up."""
    for _ in range(5):
        storm.until(storm.is_settled, "the group settles")
        before = storm.generation()
        known = storm.all_written()
        storm.write()
        storm.until(lambda: storm.handled().keys() >= storm.all_written(), "every record is handled")
        if storm.generation() == before:
            twice = {record: times for record, times in storm.handled().items() if times > 1 and record not in known}
            assert twice == {}
            return
    raise AssertionError("the membership is never stable")


@pytest.mark.timeout(300)
@pytest.mark.parametrize("library", LIBRARIES)
def test_broadcast_and_unicast(broker, tmp_path, topic, library):
    """A group each: everybody gets everything. One group: everything goes to somebody, once."""
    with Storm(broker, tmp_path, topic, 4, library, "range") as storm:
        alone = [storm.add(f"{storm.group}-{number}") for number in range(2)]
        together = [storm.add() for _ in range(2)]
        counts = [4, 4, 2, 2]
        storm.until(lambda: [len(one.assigned() or ()) for one in storm.members] == counts, "all have their partitions")
        storm.write()
        everything = storm.all_written()
        storm.until(lambda: all(set(member.handled()) == everything for member in alone), "each has everything")
        storm.until(
            lambda: sorted(together[0].handled() + together[1].handled()) == sorted(everything),
            "both together have everything, once",
        )
        assert all(sorted(member.handled()) == sorted(everything) for member in alone)
        for member in storm.members:
            member.process.send_signal(signal.SIGTERM)
        storm.until(lambda: not storm.living, "all have left")
        assert [member.process.poll() for member in storm.members] == [0] * 4
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": f"{storm.group}-0"})
        committed = consumer.committed([TopicPartition(topic, number) for number in range(4)], 30)
        assert [one.offset for one in committed] == [storm.written[number] for number in range(4)]
        consumer.close()
