"""Records of `__consumer_offsets`: what Kafka wrote is read, and written again byte for byte."""

from __future__ import annotations

from base64 import b64decode

import pytest

from broker.coordinator.classic.group import GroupState
from broker.coordinator.coordinator_log import Appended, settled
from broker.coordinator.group_records import group_key, group_value, offset_key, offset_value, read_group, read_offset
from broker.coordinator.group_replay import GroupReplay
from broker.coordinator.group_store import GroupStore
from broker.coordinator.offsets import CommittedOffset
from broker.settings.config import BrokerConfig
from protocol.control_records import ControlRecordType, EndTransactionMarker, end_marker_batch
from protocol.error_codes import ErrorCode
from protocol.messages.group_metadata import GroupMetadataKey, GroupMetadataValue, MemberMetadata, OffsetCommitKey
from protocol.record_batch import iter_batches, read_batch, set_base_offset, set_partition_leader_epoch
from protocol.record_batch_builder import RecordBatchBuilder
from protocol.versioned import encode_versioned, peek_version
from support.log_dirs import expected, recorded_directory

NOW_MS = 1_795_235_600_000
RECORDED = {
    "group-classic": "__consumer_offsets-24",
    "group-static": "__consumer_offsets-44",
    "group-left": "__consumer_offsets-7",
    "group-simple": "__consumer_offsets-32",
    "group-deleted": "__consumer_offsets-45",
    "group-txn": "__consumer_offsets-30",
}


def recorded_batches(name):
    return list(iter_batches((recorded_directory(name) / f"{0:020}.log").read_bytes()))


def replay(name):
    taken = GroupReplay(name, NOW_MS)
    for batch in recorded_batches(name):
        taken.apply(batch)
    return taken.groups()


class KeptLog:
    """A log that keeps the batches."""

    def __init__(self):
        self.batches = []

    def partition_for(self, key):
        return 0

    def term_of(self, partition):
        return 0

    def write(self, partition, term, batch, timeout_ms, finish, **options):
        self.batches.append(batch)
        return settled(finish(Appended(ErrorCode.NONE, 0)))


@pytest.mark.parametrize("group_id", RECORDED)
async def test_recorded_batches_are_written_byte_for_byte(group_id):
    log = KeptLog()
    for batch in recorded_batches(RECORDED[group_id]):
        if batch.is_control:
            continue
        records = list(batch.records())
        store = GroupStore(log, BrokerConfig({}), lambda record=records[0]: record.timestamp)
        offsets = {}
        for record in records:
            if peek_version(record.key) == 2:
                assert record.key == group_key(group_id)
                group = read_group(group_id, record.value, NOW_MS)
                written = group_value(group, {one.member_id: one.assignment for one in group.members.values()})
                store.store_group(group_id, written, in_log=None, finish=lambda error: None)
            else:
                key, _ = OffsetCommitKey.decode(record.key, 1, 2)
                partition = (key.topic, key.partition)
                if record.value is None:
                    deleted = read_group(group_id, EMPTY, NOW_MS)
                    store.store_deletion(deleted, [partition], whole_group=False, in_log=lambda: None)
                else:
                    offsets[partition] = read_offset(record.value, 0)
        if offsets:
            store.store_offsets(
                group_id, offsets, lambda _: None, lambda appended: None, batch.producer_id, batch.producer_epoch
            )
        (written,) = log.batches
        log.batches.clear()
        set_base_offset(written, 0, batch.base_offset)
        set_partition_leader_epoch(written, 0, batch.partition_leader_epoch)
        assert written == batch.buffer


EMPTY = encode_versioned(GroupMetadataValue(protocol_type="", generation=0, protocol=None, leader=None, members=[]), 3)


@pytest.mark.parametrize("group_id", RECORDED)
def test_recorded_groups_match_their_last_records(group_id):
    found = replay(RECORDED[group_id])
    last_group = None
    offsets = {}
    for batch in expected(RECORDED[group_id])["segments"][0]["batches"]:
        for record in batch["records"]:
            if batch["isControl"]:
                continue
            value = record["decodedValue"] and record["decodedValue"]["data"]
            key = record["decodedKey"]["data"]
            if record["decodedKey"]["version"] == 2:
                last_group = value
            elif value is None:
                offsets.pop((key["topic"], key["partition"]), None)
            elif value["metadata"] != "aborted offset":
                offsets[(key["topic"], key["partition"])] = (
                    value["offset"],
                    value["leaderEpoch"],
                    value["metadata"],
                    value["commitTimestamp"],
                )
    if last_group is None and not offsets:
        assert found == {}
        return
    group = found[group_id]
    assert {key: tuple(offset)[:4] for key, offset in group.offsets.committed.items()} == offsets
    if last_group is None:
        assert (group.state, group.protocol_type, group.generation) == (GroupState.EMPTY, None, 0)
        return
    assert (group.generation, group.protocol_type, group.protocol_name, group.leader_id, group.state_timestamp) == (
        last_group["generation"],
        last_group["protocolType"],
        last_group["protocol"],
        last_group["leader"],
        last_group["currentStateTimestamp"],
    )
    assert group.state is (GroupState.STABLE if last_group["members"] else GroupState.EMPTY)
    for member, told in zip(group.members.values(), last_group["members"], strict=True):
        assert (member.member_id, member.group_instance_id, member.client_id, member.client_host) == (
            told["memberId"],
            told["groupInstanceId"],
            told["clientId"],
            told["clientHost"],
        )
        assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (
            told["rebalanceTimeout"],
            told["sessionTimeout"],
        )
        assert member.assignment == b64decode(told["assignment"])
        assert member.metadata(group.protocol_name) == b64decode(told["subscription"])


def test_the_recorded_groups_have_the_expected_state():
    classic = replay(RECORDED["group-classic"])["group-classic"]
    assert (classic.state, classic.generation, len(classic.members)) == (GroupState.STABLE, 3, 1)
    assert classic.subscribed_topics == {"grp"}
    assert classic.offsets.committed[("grp", 1)].metadata == "some metadata"
    static = replay(RECORDED["group-static"])["group-static"]
    assert list(static.static_members) == ["instance-1"]
    assert static.protocol_name == "cooperative-sticky"
    left = replay(RECORDED["group-left"])["group-left"]
    assert (left.state, left.generation) == (GroupState.EMPTY, 2)
    assert list(replay(RECORDED["group-simple"])["group-simple"].offsets.committed) == [("grp", 0)]
    transactional = replay(RECORDED["group-txn"])["group-txn"]
    assert transactional.offsets.committed[("transactional", 0)].offset == 10  # 99 was aborted
    assert transactional.offsets.producers == set()


# -- versions --------------------------------------------------------------------------------------------------------


def batch_of(*records, **producer):
    builder = RecordBatchBuilder(**producer)
    for key, value in records:
        builder.append(NOW_MS, key, value)
    return read_batch(builder.build())


def replayed(*batches):
    taken = GroupReplay("__consumer_offsets-0", NOW_MS)
    for batch in batches:
        taken.apply(batch)
    return taken.groups()


@pytest.mark.parametrize("version", range(5))
def test_groups_of_every_version_are_read(version):
    member = MemberMetadata(
        member_id="m",
        group_instance_id="i" if version >= 3 else None,
        client_id="c",
        client_host="/h",
        rebalance_timeout=30_000,
        session_timeout=10_000,
        subscription=b"s",
        assignment=b"a",
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=5,
        protocol="range",
        leader="m",
        current_state_timestamp=7,
        members=[member],
    )
    key = encode_versioned(GroupMetadataKey(group="g"), 2)
    group = replayed(batch_of((key, encode_versioned(value, version))))["g"]
    assert (group.state, group.generation, group.leader_id) == (GroupState.STABLE, 5, "m")
    assert group.members["m"].rebalance_timeout_ms == (10_000 if version == 0 else 30_000)
    assert group.state_timestamp == (7 if version >= 2 else -1)
    assert group.subscribed_topics is None  # "s" is no subscription


@pytest.mark.parametrize("expiry", [-1, 5_000])
def test_an_offset_keeps_the_expire_timestamp_of_an_old_client(expiry):
    offset = CommittedOffset(3, -1, "m", 1_000, expiry, 0)
    value = offset_value(offset)
    assert peek_version(value) == (3 if expiry < 0 else 1)
    assert read_offset(value, 0) == offset


@pytest.mark.parametrize("version", [0, 1])
def test_offsets_under_keys_of_both_versions_are_read(version):
    key = encode_versioned(OffsetCommitKey(group="g", topic="t", partition=3), version)
    group = replayed(batch_of((key, offset_value(CommittedOffset(5, -1, "m", NOW_MS)))))["g"]
    assert group.offsets.committed[("t", 3)].offset == 5


# -- replay ----------------------------------------------------------------------------------------------------------


def commit(group_id, partition, offset, **producer):
    value = offset_value(CommittedOffset(offset, -1, "", NOW_MS))
    return batch_of((offset_key(group_id, ("t", partition)), value), **producer)


def transactional(producer_id, base_offset=0):
    return {
        "producer_id": producer_id,
        "producer_epoch": 0,
        "base_sequence": 0,
        "transactional": True,
        "base_offset": base_offset,
    }


def marker(kind, producer_id):
    return read_batch(
        end_marker_batch(EndTransactionMarker(kind, 0), producer_id=producer_id, producer_epoch=0, timestamp=NOW_MS)
    )


def test_an_open_transaction_stays_open():
    group = replayed(commit("g", 0, 5), commit("g", 0, 9, **transactional(1, 1)))["g"]
    assert group.offsets.committed[("t", 0)].offset == 5
    assert group.offsets.is_unstable(("t", 0))
    group.offsets.end_transaction(1, 10, committed=True)
    assert group.offsets.committed[("t", 0)].offset == 9


def test_a_transactional_offset_does_not_replace_a_later_commit():
    later = commit("g", 0, 20, base_offset=2)
    groups = replayed(commit("g", 0, 9, **transactional(1, 1)), later, marker(ControlRecordType.COMMIT, 1))
    assert groups["g"].offsets.committed[("t", 0)].offset == 20


def test_markers_end_the_transaction_of_their_producer_only():
    batches = [commit("g", number, number, **transactional(number, number)) for number in (1, 2, 3)]
    groups = replayed(*batches, marker(ControlRecordType.COMMIT, 1), marker(ControlRecordType.ABORT, 2))
    assert list(groups["g"].offsets.committed) == [("t", 1)]
    assert set(groups["g"].offsets.producers) == {3}


def test_a_deleted_group_is_not_loaded_and_a_group_with_only_offsets_is():
    group = replayed(commit("g", 0, 1))["g"]
    value = group_value(group, {})
    gone = replayed(batch_of((group_key("g"), value)), batch_of((group_key("g"), None)))
    assert gone == {}
    assert set(replayed(batch_of((group_key("g"), None)), commit("h", 0, 1))) == {"h"}


@pytest.mark.parametrize(
    "broken",
    [
        (b"", b"x"),
        (None, b"x"),
        (b"\0", b"x"),
        (b"\0\1\0", b"x"),
        (offset_key("g", ("t", 7)), b"\0\7garbage"),
        (offset_key("g", ("t", 7)), b"\0\3\0"),
        (group_key("g"), b"\0\3\0\4"),
        (group_key("g"), b""),
        (b"\0\x63later", b"x"),
    ],
)
def test_an_unreadable_record_is_skipped(broken, caplog):
    good = (offset_key("g", ("t", 0)), offset_value(CommittedOffset(4, -1, "", NOW_MS)))
    groups = replayed(batch_of(broken, good))
    assert {key: offset.offset for key, offset in groups["g"].offsets.committed.items()} == {("t", 0): 4}
    assert "skipped" in caplog.text


def test_an_unreadable_batch_is_skipped(caplog):
    torn = RecordBatchBuilder()
    torn.append(NOW_MS, b"key", b"value" * 10)
    data = torn.build()
    data[61] = 0xFF
    groups = replayed(commit("g", 0, 1), read_batch(data), commit("g", 1, 2))
    assert len(groups["g"].offsets.committed) == 2
    assert "skipped" in caplog.text
