"""`ottla verify-log`: what it prints, its exit codes, and that it keeps away from a directory in use."""

import json
import shutil

import pytest

from support.broker import broker_process
from support.log_dirs import copy_log_directory

LOG = "0" * 20 + ".log"


@pytest.fixture
def data(tmp_path):
    """Some of the partitions that Kafka left."""
    return copy_log_directory("broker-0", tmp_path / "data", "grp-0", "idempotent-0", "multi-segment-0")


def cut(data):
    """Take the last batch's end away; records were synced up to there."""
    path = data / "idempotent-0" / LOG
    path.write_bytes(path.read_bytes()[:-5])
    return path


def test_a_sound_directory(ottla, data):
    done = ottla("verify-log", data)
    assert done.out.splitlines()[-1] == f"{data}: 3 partitions, 9 segments, 708 batches: sound, 4 warnings"
    assert ottla("verify-log", data / "grp-0").out == f"{data / 'grp-0'}: 1 partition, 1 segment, 1 batch: sound\n"


def test_a_broken_one(ottla, data):
    path = cut(data)
    done = ottla("verify-log", data, data / "grp-0", code=1)
    assert done.err == f"ottla: 1 error in {data}\n"
    assert f"error in {path} at byte 1606 (offset 80): batch of 196 bytes is cut off after 191" in done.out
    assert f"{data / 'grp-0'}: 1 partition, 1 segment, 1 batch: sound" in done.out


def test_json(ottla, data):
    path = cut(data)
    (outcome,) = ottla("verify-log", "--json", "--deep", data / "idempotent-0", code=1).json
    assert not outcome["sound"]
    assert outcome["records"] > 0
    (problem,) = outcome["problems"]
    assert (problem["severity"], problem["path"], problem["position"], problem["offset"]) == (
        "error",
        str(path),
        1606,
        80,
    )
    assert json.dumps(outcome)


def test_a_repair_and_what_it_would_lose(ottla, data):
    path = cut(data)
    done = ottla("verify-log", "--repair", data, code=1)
    assert (
        "idempotent-0: not repaired: the log would be truncated to offset 80, but records up to offset 85" in done.out
    )
    done = ottla("verify-log", "--repair", "--accept-data-loss", data)
    assert "idempotent-0: recovered, cut 191 bytes, the log ends at offset 80" in done.out
    assert path.stat().st_size == 1606
    assert "sound" in ottla("verify-log", data).out
    assert ottla("verify-log", "--repair", "--json", data).json[0]["repaired"] == []


def test_a_partition_is_repaired_by_its_relative_name(ottla, data, monkeypatch):
    index = data / "multi-segment-0" / LOG.replace(".log", ".index")
    content = index.read_bytes()
    index.unlink()
    monkeypatch.chdir(data)
    ottla("verify-log", "multi-segment-0", code=1)
    assert "recovered" in ottla("verify-log", "--repair", "multi-segment-0").out
    assert index.exists()
    assert len(index.read_bytes()) < len(content)  # at the default interval, of which the topic had an eighth
    ottla("verify-log", "multi-segment-0")


@pytest.mark.parametrize(
    ("words", "clue"),
    [
        (("/no/such",), "no directory /no/such"),
        (("{data}/grp-0/" + LOG,), "no directory"),
        (("{data}/..",), "is neither a log directory"),
        (("--repair", "{data}/.."), "is neither a log directory"),
        (("--repair", "--while-running", "{data}"), "--repair cannot be used with --while-running"),
        (("--accept-data-loss", "{data}"), "--accept-data-loss needs --repair"),
    ],
)
def test_what_cannot_be_verified(ottla, data, words, clue):
    assert clue in ottla("verify-log", *(word.format(data=data) for word in words), code=2).err


def test_beside_a_broker_and_after_it(ottla, tmp_path, monkeypatch):
    with broker_process(tmp_path / "data") as broker:
        monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", broker.bootstrap)
        ottla("produce", "t", stdin=b"one\ntwo\n")
        for words in ((), ("--repair",)):
            assert "is in use by another process" in ottla("verify-log", *words, broker.log_dir, code=2).err
        done = ottla("verify-log", "--while-running", "--deep", broker.log_dir)
        assert done.out == f"{broker.log_dir}: 1 partition, 1 segment, 1 batch: sound\n"
        assert "1 batch: sound" in ottla("verify-log", "--while-running", broker.log_dir / "t-0").out
        assert "is in use" in ottla("verify-log", broker.log_dir / "t-0", code=2).err
        assert broker.stop() == 0
    assert ottla("verify-log", tmp_path / "data").out.endswith(" 1 batch: sound\n")


def test_after_a_kill(ottla, tmp_path, monkeypatch):
    with broker_process(tmp_path / "data") as broker:
        monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", broker.bootstrap)
        ottla("produce", "t", stdin=b"one\ntwo\n")
        broker.kill()
        killed = shutil.copytree(broker.log_dir, tmp_path / "killed")
        log = killed / "t-0" / LOG
        log.write_bytes(log.read_bytes() + bytes(100))
        assert "not stopped cleanly" in ottla("verify-log", broker.log_dir).out
        assert "100 bytes of zeros" in ottla("verify-log", killed, code=1).out
        assert "t-0: recovered, cut 100 bytes, the log ends at offset 2" in ottla("verify-log", "--repair", killed).out
