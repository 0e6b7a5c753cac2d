"""`ottla dump-log` on Kafka's own files, against what Kafka's tool and the recorded expectations say of
them.
"""

import json
import re
import shutil

import pytest

from support.reference import REFERENCE

DIRS = REFERENCE / "log-dirs"
BROKER = DIRS / "broker-0"
DUMPS = sorted((DIRS / "dump-log").glob("*.txt"))
EXPECTED = sorted((DIRS / "expected").glob("*.json"))
OFFSET_KEY = {"0": "OffsetCommitKey", "1": "OffsetCommitKey", "2": "GroupMetadataKey"}


def kafka_batch(line):
    """The facts in a line about a batch as Kafka's tool prints it."""
    facts = dict(re.findall(r"(\w+): (\S+)", line))
    horizon = re.search(r"deleteHorizonMs: OptionalLong\[(\d+)\]", line)
    kind = "CreateTime" if "CreateTime" in facts else "LogAppendTime"
    return {
        "position": int(facts["position"]),
        "size": int(facts["size"]),
        "base_offset": int(facts["baseOffset"]),
        "last_offset": int(facts["lastOffset"]),
        "count": int(facts["count"]),
        "max_timestamp": int(facts[kind]),
        "timestamp_type": kind,
        "partition_leader_epoch": int(facts["partitionLeaderEpoch"]),
        "producer_id": int(facts["producerId"]),
        "producer_epoch": int(facts["producerEpoch"]),
        "base_sequence": int(facts["baseSequence"]),
        "last_sequence": int(facts["lastSequence"]),
        "transactional": facts["isTransactional"] == "true",
        "control": facts["isControl"] == "true",
        "delete_horizon_ms": int(horizon[1]) if horizon else None,
        "magic": int(facts["magic"]),
        "compression": facts["compresscodec"],
        "crc": int(facts["crc"]),
        "valid": facts["isvalid"] == "true",
    }


def same_record(line, entry):
    """Compare a line about a record as Kafka's tool prints it with our entry."""
    facts = dict(re.findall(r"(\w+): (\S+)", line.split("headerKeys")[0]))
    assert entry["offset"] == int(facts["offset"])
    assert entry["timestamp"] == int(facts.get("CreateTime") or facts["LogAppendTime"])
    assert entry["key_size"] == int(facts["keySize"])
    assert entry["value_size"] == int(facts["valueSize"])
    names = re.search(r"headerKeys: \[(.*?)\]", line)[1]
    assert [name for name, _ in entry["headers"]] == ([name for name in names.split(",") if name])
    if "endTxnMarker" in line:
        kind, epoch = re.search(r"endTxnMarker: (\w+) coordinatorEpoch: (-?\d+)", line).groups()
        assert entry["control"] == {"type": kind, "coordinator_epoch": int(epoch)}
        return
    assert entry["sequence"] == int(facts["sequence"])
    parts = re.search(r"headerKeys: \[.*?\](?: key: (.*?))?(?: payload: (.*))?$", line)
    same_content(entry["key"], parts[1], entry["value"], parts[2])


def same_content(our_key, key, our_value, value):
    if isinstance(our_key, dict) and our_key.get("type") == "TransactionLogKey":
        assert key == f"transaction_metadata::transactionalId={our_key['data']['transactionalId']}"
        data = our_value["data"]
        assert f"producerId:{data['producerId']},producerEpoch:{data['producerEpoch']}," in value
        assert f"state={data['transactionStatus']}," in value
        partitions = [
            f"{topic['topic']}-{number}"
            for topic in data["transactionPartitions"] or ()
            for number in topic["partitionIds"]
        ]
        assert sorted(filter(None, re.search(r"partitions=\[(.*?)\]", value)[1].split(","))) == sorted(partitions)
        assert f"txnLastUpdateTimestamp={data['transactionLastUpdateTimestampMs']}" in value
        assert f"txnTimeoutMs={data['transactionTimeoutMs']}" in value
    elif isinstance(our_key, dict) and "version" in our_key:
        theirs = json.loads(key)
        assert our_key["type"] == OFFSET_KEY[theirs["type"]]
        assert our_key["version"] == int(theirs["type"])
        assert our_key["data"] == theirs["data"]
        if value is None or value == "<DELETE>":
            assert our_value is None
        else:
            theirs = json.loads(value)
            assert our_value["version"] == int(theirs["version"])
            assert our_value["data"] == theirs["data"]
    else:
        assert our_key == key
        assert our_value == value


@pytest.mark.parametrize("dump", DUMPS, ids=lambda path: path.stem)
def test_as_kafkas_own_tool(ottla, dump):
    text = dump.read_text().splitlines()
    files = [line.removeprefix("Dumping ") for line in text if line.startswith("Dumping ")]
    lines = [line for line in text if not line.startswith(("Dumping ", "Log starting offset"))]
    records = any(line.startswith("|") for line in lines)
    words = ["dump-log", "--json", *(["--records"] if records else []), *(BROKER / file for file in files)]
    entries = ottla(*words).lines
    assert len(entries) == len(lines)
    for line, entry in zip(lines, entries, strict=True):
        if line.startswith("|"):
            assert entry["type"] == "record"
            same_record(line, entry)
        elif line.startswith("baseOffset"):
            facts = kafka_batch(line)
            assert {name: entry[name] for name in facts} == facts
        else:
            facts = {snake(name): int(value) for name, value in re.findall(r"(\w+): (-?\d+)", line)}
            facts.pop("last_timestamp", None)  # the same as timestamp
            if "first_sequence" in facts:
                entry["first_sequence"] = entry["last_sequence"] - entry["offset_delta"]
                opened = re.search(r"currentTxnFirstOffset: OptionalLong\[(\d+)\]", line)
                assert entry["current_txn_first_offset"] == (int(opened[1]) if opened else -1)
            assert {name: entry[name] for name in facts} == facts


def snake(name):
    return re.sub("([A-Z])", r"_\1", name).lower()


def directory_of(expected):
    name, _, broker = expected.stem.partition(".")
    return next(path for path in DIRS.glob(f"*/{broker or '*'}/{name}") if path.is_dir()) if broker else BROKER / name


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda path: path.stem)
def test_every_recorded_directory(ottla, expected):
    facts = json.loads(expected.read_text())
    directory = directory_of(expected)
    entries = ottla("dump-log", "--json", "--records", directory).lines
    by_file = {}
    for entry in entries:
        by_file.setdefault(entry["file"].rpartition("/")[2], []).append(entry)
    batches = [entry for entry in entries if entry["type"] == "batch"]
    wanted = [batch for segment in facts["segments"] for batch in segment["batches"]]
    assert [(one["base_offset"], one["position"], one["crc"]) for one in batches] == [
        (one["baseOffset"], one["position"], one["crc"]) for one in wanted
    ]
    records = [entry["offset"] for entry in entries if entry["type"] == "record"]
    assert records == [record["offset"] for batch in wanted for record in batch["records"]]
    fields = {
        ".index": lambda one: [one["offset"], one["position"]],
        ".timeindex": lambda one: [one["timestamp"], one["offset"]],
    }
    for name, content in facts["indexes"].items():
        mine = by_file.get(name, [])
        suffix = name[name.rindex(".") :]
        if suffix in fields:
            assert [fields[suffix](one) for one in mine] == content
        else:
            assert len(mine) == len(content)
            for one, other in zip(mine, content, strict=True):
                theirs = {snake(key): value for key, value in other.items()}
                assert {key: one[key] for key in theirs if key in one} == {
                    key: value for key, value in theirs.items() if key in one
                }
                assert len(theirs.keys() & one.keys()) >= 4
    epochs = [[one["epoch"], one["start_offset"]] for one in entries if one["type"] == "leader_epoch"]
    assert epochs == facts["leaderEpochs"]
    ids = [one["value"] for one in entries if one["type"] == "property" and one["name"] == "topic_id"]
    assert ids == [facts["topicId"]]


def test_files_of_the_log_dir(ottla):
    entries = ottla("dump-log", "--json", BROKER).lines
    recovery = {
        (one["topic"], one["partition"]): one["offset"]
        for one in entries
        if one["file"].endswith("recovery-point-offset-checkpoint")
    }
    assert recovery["codec-zstd", 0] == 211
    start = [one for one in entries if one["file"].endswith("log-start-offset-checkpoint")]
    assert [(one["topic"], one["offset"]) for one in start] == [("start-offset", 61)]
    properties = {one["name"]: one["value"] for one in entries if one["type"] == "property"}
    assert properties["broker.id"] == "0"


@pytest.mark.parametrize(
    ("option", "name"), [("--offsets", "__consumer_offsets-24"), ("--transactions", "__transaction_state-47")]
)
def test_internal_records_in_another_place(ottla, option, name, tmp_path):
    path = tmp_path / f"{0:020d}.log"
    shutil.copyfile(BROKER / name / path.name, path)
    wanted = ottla("dump-log", "--json", "--records", BROKER / name / path.name).lines
    found = ottla("dump-log", "--json", option, path).lines
    assert [{**entry, "file": ""} for entry in found] == [{**entry, "file": ""} for entry in wanted]
    assert any(isinstance(entry.get("key"), dict) and "type" in entry["key"] for entry in found)
    assert "a file belongs to one topic" in ottla("dump-log", "--offsets", "--transactions", path, code=1).err


def test_text_for_people(ottla):
    text = ottla("dump-log", "-r", BROKER / "types-0").out
    assert text.count("\n") > 10
    assert "batch  position: 0  size:" in text
    assert "    record  offset: 0" in text
    assert "compression" not in text.split("record")[0]


@pytest.fixture
def broken(tmp_path):
    """A copy of a segment to break, and where its batches begin."""
    path = tmp_path / "multi-segment-0" / ("0" * 20 + ".log")
    path.parent.mkdir()
    shutil.copy(BROKER / "multi-segment-0" / path.name, path)
    path.chmod(0o644)
    facts = json.loads((DIRS / "expected" / "multi-segment-0.json").read_text())
    return path, [batch["position"] for batch in facts["segments"][0]["batches"]]


def test_a_flipped_bit_is_found_where_it_is(ottla, broken):
    path, positions = broken
    data = bytearray(path.read_bytes())
    data[positions[3] + 70] ^= 4
    path.write_bytes(data)
    result = ottla("dump-log", path, "--json", code=1)
    assert f"{path} is corrupt at byte {positions[3]}: stored crc" in result.err
    batches = [one for one in result.lines if one["type"] == "batch"]
    assert [one["position"] for one in batches if not one["valid"]] == [positions[3]]
    assert len(batches) == len(positions)


@pytest.mark.parametrize("length", [-5, 0, 3, 10**9])
def test_a_broken_length_ends_the_file(ottla, broken, length):
    path, positions = broken
    data = bytearray(path.read_bytes())
    data[positions[5] + 8 : positions[5] + 12] = length.to_bytes(4, "big", signed=True)
    path.write_bytes(data)
    result = ottla("dump-log", path, code=1)
    assert f"is corrupt at byte {positions[5]}: " in result.err
    assert f"CORRUPT at byte {positions[5]}" in result.out
    assert result.out.count("batch  position") == 5


@pytest.mark.parametrize("left", [5, 20, 100])
def test_a_cut_file(ottla, broken, left):
    path, positions = broken
    path.write_bytes(path.read_bytes()[: positions[2] + left])
    assert f"is corrupt at byte {positions[2]}: " in ottla("dump-log", path, code=1).err


def test_preallocated_room_is_no_corruption(ottla, broken):
    path, _ = broken
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + bytes(100_000))
    *_, last = ottla("dump-log", "--json", path).lines
    assert (last["type"], last["position"], last["size"]) == ("padding", size, 100_000)
    path.write_bytes(path.read_bytes() + b"\1")
    assert f"corrupt at byte {size}: " in ottla("dump-log", path, code=1).err


def test_offsets_that_go_back(ottla, broken):
    path, positions = broken
    data = bytearray(path.read_bytes())
    data[positions[4] : positions[4] + 8] = bytes(8)
    path.write_bytes(data)
    assert f"corrupt at byte {positions[4]}: base offset 0" in ottla("dump-log", path, code=1).err


def test_malformed_records(ottla, tmp_path):
    from protocol.record_batch import update_crc

    path = tmp_path / "t-0" / ("0" * 20 + ".log")
    path.parent.mkdir()
    data = bytearray((BROKER / "multi-segment-0" / path.name).read_bytes())
    data[61] = 0x7F  # the length of the first record
    update_crc(data, 0)
    path.write_bytes(data)
    assert ottla("dump-log", path).code == 0
    assert "corrupt at byte 0: record 0" in ottla("dump-log", "-r", path, code=1).err


@pytest.mark.parametrize(
    ("source", "change", "clue"),
    [
        (".index", lambda data: data[:-3], "not a multiple of 8"),
        (".index", lambda data: data[:8] + data[8:16][::-1] + data[16:], "at byte 16: entry"),
        (".timeindex", lambda data: data[:-5], "not a multiple of 12"),
        (".timeindex", lambda data: data[:12] + bytes(12) + data[24:], "at byte 12: entry"),
    ],
)
def test_broken_indexes(ottla, tmp_path, source, change, clue):
    path = tmp_path / ("0" * 20 + source)
    path.write_bytes(change((BROKER / "multi-segment-0" / path.name).read_bytes()))
    assert clue in ottla("dump-log", path, code=1).err


def test_broken_small_files(ottla, tmp_path):
    for name, content, clue in [
        ("00000000000000000005.snapshot", b"\0\1\0\0\0\0\0\0\0\1", "crc"),
        ("00000000000000000005.txnindex", bytes(30), "at byte 0: 30 bytes are too few"),
        ("00000000000000000005.txnindex", b"\0\7" + bytes(32), "at byte 0: unknown version 7"),
        ("leader-epoch-checkpoint", b"0\n2\n0 0\n", "2 entries"),
        ("leader-epoch-checkpoint", b"0\n1\n0 x\n", "malformed line"),
        ("replication-offset-checkpoint", b"1\n0\n", "version"),
        ("partition.metadata", b"nonsense", "malformed line"),
        ("five.index", bytes(8), "base offset"),
    ]:
        path = tmp_path / name
        path.write_bytes(content)
        result = ottla("dump-log", path, code=1)
        assert f"{path} is corrupt at byte" in result.err
        assert clue in result.err


def test_preallocated_index(ottla, tmp_path):
    path = tmp_path / ("0" * 20 + ".index")
    content = (BROKER / "multi-segment-0" / path.name).read_bytes()
    path.write_bytes(content + bytes(10 * 1024 - len(content)))
    assert len(ottla("dump-log", "--json", path).lines) == len(content) // 8


def test_what_it_does_not_know(ottla, tmp_path):
    assert "no file" in ottla("dump-log", tmp_path / "nosuch.log", code=1).err
    (tmp_path / "notes.txt").write_text("x")
    assert "neither .log" in ottla("dump-log", tmp_path / "notes.txt", code=1).err
    assert "contains no files" in ottla("dump-log", tmp_path, code=1).err
