"""Every znode that Apache Kafka 3.9 was recorded to write, decoded and encoded again to the same bytes."""

import json

import pytest

from registry.znodes.java_order import immutable_map_order, mutable_map_order, properties_order
from registry.znodes.tree import PERSISTENT_PATHS, znode_class
from support.znodes import FOLDER, recorded_bytes

DUMPS = sorted(path.name for path in FOLDER.glob("[0-9]*.json"))
OPS = sorted(path.name for path in FOLDER.glob("ops-*.jsonl"))


def check(path, data):
    znode = znode_class(path)
    assert znode is not None, f"no class for {path}"
    filled_by_the_next_operation = path == "/latest_producer_id_block" or path.startswith("/brokers/ids/")
    if data is None and filled_by_the_next_operation:
        return
    assert znode.decode(data, path).encode() == data, path


def writes(name):
    """All (path, data) that were created or set, in order, those of multis included."""
    for line in (FOLDER / name).read_text().splitlines():
        op = json.loads(line)
        for part in op.get("ops", [op]):
            if part["op"] in ("create", "setData"):
                yield part["path"], recorded_bytes(part)


def test_there_are_recorded_znodes():
    assert len(DUMPS) == 20
    assert len(OPS) == 3


@pytest.mark.parametrize("name", DUMPS)
def test_dump(name):
    for entry in json.loads((FOLDER / name).read_text()):
        check(entry["path"], recorded_bytes(entry))


@pytest.mark.parametrize("name", OPS)
def test_operations(name):
    seen = 0
    for path, data in writes(name):
        check(path, data)
        seen += 1
    assert seen > 40


def test_persistent_paths_are_created_in_the_recorded_order():
    created = [path for path, _data in writes("ops-three-brokers.jsonl")]
    assert tuple(path for path in created if path in PERSISTENT_PATHS) == PERSISTENT_PATHS


def test_map_orders_match_the_recording():
    """The imitated hash maps agree with every recorded map that has more than one variable key."""
    configs = partitions = 0
    entries = [entry for name in DUMPS for entry in json.loads((FOLDER / name).read_text())]
    for entry in entries:
        value = entry["value"]
        if not isinstance(value, dict):
            continue
        if "config" in value:
            keys = list(value["config"])
            assert properties_order(sorted(keys)) == keys
            configs += len(keys) > 1
        if "adding_replicas" in value:
            keys = list(value["partitions"])
            assert mutable_map_order(sorted(keys, reverse=True)) == keys
            partitions += len(keys) > 1
        if "endpoints" in value:
            assert mutable_map_order(sorted(value)) == list(value)
        if "isr" in value:
            assert immutable_map_order(sorted(value)) == list(value)
    assert configs > 5
    assert partitions > 5
