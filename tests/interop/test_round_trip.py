"""A million records and a real file: what went in comes out, in order, byte for byte."""

import hashlib
import subprocess
import sysconfig
import threading
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from support.counts import FULL, count
from support.deadlines import DEADLINE_S
from support.kafka_clients import CLIENTS, Sent
from support.programs import need_kcat

PARTITIONS = 4
RECORDS = count(100_000, 1_000_000)
FILE_BYTES = count(20_000_000, 200_000_000)
BY_NAME = {client.name: client for client in CLIENTS}


def new_topic(broker, name, partitions):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(DEADLINE_S)


def record(number):
    """A record that no other one is like; its partition is none that its number gives away."""
    digest = hashlib.blake2b(b"%d" % number, digest_size=8).hexdigest().encode()
    key = None if number % 10 == 9 else b"key-%d" % (number % 1000)
    return Sent(digest[0] % PARTITIONS, key, b"%d %s" % (number, digest * (number % 9)))


class Fingerprint:
    """Hash and number of the records of each partition, in order."""

    def __init__(self):
        self.hashes = [hashlib.sha256() for _ in range(PARTITIONS)]
        self.counts = [0] * PARTITIONS

    def add(self, one):
        self.hashes[one.partition].update(b"%r %r\n" % (one.key, one.value))
        self.counts[one.partition] += 1

    def result(self):
        return self.counts, [one.hexdigest() for one in self.hashes]


@pytest.mark.counted
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("writer", "codec", "readers"),
    [
        # In the reduced run the fast client alone; in full, every library reads them, and each writes some.
        pytest.param("confluent-kafka", "lz4", ["confluent-kafka"], id="confluent-kafka"),
        pytest.param("aiokafka", "none", ["aiokafka"], id="aiokafka"),
        pytest.param("kafka-python", "none", ["kafka-python"], id="kafka-python"),
    ],
)
def test_many_records_come_back_equal_and_in_order(writer, codec, readers, broker):
    """RECORDS of them by librdkafka, a tenth by the clients in Python, which would take minutes."""
    records = RECORDS if writer == "confluent-kafka" else RECORDS // 10
    topic = f"million-{writer}"
    new_topic(broker, topic, PARTITIONS)
    expected = Fingerprint()

    def generated():
        for number in range(records):
            one = record(number)
            expected.add(one)
            yield one

    BY_NAME[writer].produce(broker.bootstrap, topic, generated(), codec, idempotent=True)
    assert sum(expected.counts) == records
    for reader in readers:
        found = Fingerprint()
        for one in BY_NAME[reader].consume(broker.bootstrap, topic, expected.counts):
            found.add(one)
        assert found.result() == expected.result()


def write_real_lines(path, size):
    """Source text of this machine's Python, every line with file and number before it as `grep -n` shows them.

    So no line is empty, which kcat would leave out. The same on every run on the same machine.
    """
    roots = [Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib")]
    written = 0
    with path.open("wb") as out:
        while written < size:  # a small installation is gone through more than once
            before = written
            for root in roots:
                for source in sorted(root.rglob("*.py")):
                    name = str(source.relative_to(root)).encode()
                    lines = source.read_bytes().split(b"\n")
                    data = b"".join(b"%s:%d:%s\n" % (name, number, line) for number, line in enumerate(lines, 1))
                    if b"\0" in data or max(map(len, lines)) > 900_000:
                        continue
                    out.write(data)
                    written += len(data)
                    if written >= size:
                        return
            assert written > before, "there are no sources here"


def sha256(stream, wanted):
    """Hash of the first `wanted` bytes of a stream, and how many there were."""
    digest = hashlib.sha256()
    seen = 0
    while seen < wanted and (chunk := stream.read(min(1 << 20, wanted - seen))):
        digest.update(chunk)
        seen += len(chunk)
    return digest.hexdigest(), seen


@pytest.mark.counted
@pytest.mark.timeout(600)
@pytest.mark.parametrize("codec", ["none", "zstd"] if FULL else ["zstd"])
def test_a_real_file_goes_through_kcat_and_comes_back_the_same(codec, broker, tmp_path):
    program = need_kcat()
    path = tmp_path / "lines"
    write_real_lines(path, FILE_BYTES)
    size = path.stat().st_size
    assert size >= FILE_BYTES
    topic = f"file-{codec}"
    new_topic(broker, topic, 1)
    # -X: no line is lost or leaves its order while kcat fills its queue.
    command = [program, "-q", "-b", broker.bootstrap, "-P", "-t", topic, "-p", "0", "-z", codec, "-l", str(path)]
    subprocess.run([*command, "-X", "enable.idempotence=true"], check=True, timeout=5 * DEADLINE_S)
    with path.open("rb") as file:
        expected = sha256(file, size)
    command = [program, "-q", "-b", broker.bootstrap, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-D", "\n"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as reader:
        watchdog = threading.Timer(300, reader.kill)
        watchdog.start()
        found = sha256(reader.stdout, size + 1)
        watchdog.cancel()
    assert found == expected
